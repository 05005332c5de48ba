//! Ids of traces and spans, derived: the same journal gives the same ids in every process.

use std::fmt;

use dalsegno_core::{OperationId, RunId};

macro_rules! hex_id {
    ($(#[$doc:meta])* $name:ident, $length:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; $length]);

        impl $name {
            /// The bytes, which are never all zero.
            pub const fn as_bytes(&self) -> &[u8; $length] {
                &self.0
            }

            fn derive(context: &str, parts: &[&[u8]]) -> Self {
                let mut hasher = blake3::Hasher::new_derive_key(context);
                for part in parts {
                    hasher.update(part);
                }
                let mut bytes = [0; $length];
                hasher.finalize_xof().fill(&mut bytes);
                if bytes == [0; $length] {
                    // OpenTelemetry takes such an id for none.
                    bytes[$length - 1] = 1;
                }
                Self(bytes)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }
    };
}

hex_id!(
    /// The trace of a root run and of all runs below it.
    TraceId, 16
);
hex_id!(
    /// One span.
    SpanId, 8
);

impl TraceId {
    /// The trace of a root run.
    pub fn of(root: RunId) -> Self {
        Self::derive("dalsegno telemetry trace of a root run", &[root.as_bytes()])
    }
}

impl SpanId {
    /// The span of a run.
    pub fn of_run(run: RunId) -> Self {
        Self::derive("dalsegno telemetry span of a run", &[run.as_bytes()])
    }

    /// The span of a run's step.
    pub fn of_step(run: RunId, step: u64) -> Self {
        Self::derive("dalsegno telemetry span of a step", &[run.as_bytes(), &step.to_be_bytes()])
    }

    /// The span of an operation.
    pub fn of_operation(run: RunId, operation: OperationId) -> Self {
        Self::derive("dalsegno telemetry span of an operation", &[run.as_bytes(), operation.as_bytes()])
    }

    /// The span of an attempt that began with the record `seq`.
    pub fn of_attempt(run: RunId, operation: OperationId, attempt: u32, seq: u64) -> Self {
        let parts: [&[u8]; 4] =
            [run.as_bytes(), operation.as_bytes(), &attempt.to_be_bytes(), &seq.to_be_bytes()];
        Self::derive("dalsegno telemetry span of an attempt", &parts)
    }

    /// The span of a turn of a call, which began with that news of the record `seq`.
    pub fn of_turn(run: RunId, seq: u64, place: u32) -> Self {
        let parts: [&[u8]; 3] = [run.as_bytes(), &seq.to_be_bytes(), &place.to_be_bytes()];
        Self::derive("dalsegno telemetry span of a turn", &parts)
    }

    /// The span of an outcome that came too late, with the record `seq`.
    pub fn of_late(run: RunId, operation: OperationId, seq: u64) -> Self {
        let parts: [&[u8]; 3] = [run.as_bytes(), operation.as_bytes(), &seq.to_be_bytes()];
        Self::derive("dalsegno telemetry span of a late outcome", &parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_same_in_every_release() {
        let run = RunId::from_bytes([7; 16]);
        let operation = OperationId::from_bytes([9; 16]);
        let ids = [
            TraceId::of(run).to_string(),
            SpanId::of_run(run).to_string(),
            SpanId::of_step(run, 1).to_string(),
            SpanId::of_operation(run, operation).to_string(),
            SpanId::of_attempt(run, operation, 1, 4).to_string(),
            SpanId::of_late(run, operation, 4).to_string(),
            SpanId::of_turn(run, 4, 1).to_string(),
        ];
        // A collector that knows a run by these ids must know it again after an update.
        assert_eq!(ids, PINNED);
    }

    const PINNED: [&str; 7] = [
        "4c00573a1b53ab9c98d4694eb37e8666",
        "98dd58a1bf0ed056",
        "8245c9511c19d6ed",
        "db141bda28396129",
        "833acf632a9cb094",
        "cee60dc4b69a7c5c",
        "04f280c09eb9add7",
    ];
}
