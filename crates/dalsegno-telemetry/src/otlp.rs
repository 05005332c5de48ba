//! Spans as messages of the OpenTelemetry protocol.

use dalsegno_core::Timestamp;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link as ProtoLink, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{
    ResourceSpans, ScopeSpans, Span as ProtoSpan, Status as ProtoStatus,
};

use crate::semconv::SCHEMA_URL;
use crate::span::{Kind, Span, Status, Value};

/// Sampled, and the parent is known not to be remote.
const FLAGS: u32 = 0x001 | 0x100;

/// A request that exports spans of one resource.
pub(crate) fn request(resource: &[(String, String)], spans: Vec<Span>) -> ExportTraceServiceRequest {
    let attributes = resource.iter().map(|(name, value)| pair(name, Any::StringValue(value.clone())));
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource { attributes: attributes.collect(), ..Resource::default() }),
            scope_spans: vec![ScopeSpans {
                scope: Some(InstrumentationScope {
                    name: env!("CARGO_PKG_NAME").to_owned(),
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                    ..InstrumentationScope::default()
                }),
                spans: spans.into_iter().map(span).collect(),
                schema_url: SCHEMA_URL.to_owned(),
            }],
            schema_url: SCHEMA_URL.to_owned(),
        }],
    }
}

fn span(span: Span) -> ProtoSpan {
    let events = span.events.into_iter().map(|event| Event {
        time_unix_nano: nanos(event.at),
        name: event.name.to_owned(),
        attributes: pairs(event.attributes),
        dropped_attributes_count: 0,
    });
    let links = span.links.into_iter().map(|link| ProtoLink {
        trace_id: link.trace.as_bytes().to_vec(),
        span_id: link.span.as_bytes().to_vec(),
        attributes: pairs(link.attributes),
        flags: FLAGS,
        ..ProtoLink::default()
    });
    let status = match span.status {
        Status::Unset => ProtoStatus::default(),
        Status::Error(message) => ProtoStatus { message, code: StatusCode::Error.into() },
    };
    ProtoSpan {
        trace_id: span.trace.as_bytes().to_vec(),
        span_id: span.id.as_bytes().to_vec(),
        trace_state: String::new(),
        parent_span_id: span.parent.map_or_else(Vec::new, |parent| parent.as_bytes().to_vec()),
        flags: FLAGS,
        name: span.name,
        kind: match span.kind {
            Kind::Internal => SpanKind::Internal.into(),
            Kind::Client => SpanKind::Client.into(),
        },
        start_time_unix_nano: nanos(span.start),
        end_time_unix_nano: nanos(span.end),
        attributes: pairs(span.attributes),
        dropped_attributes_count: 0,
        events: events.collect(),
        dropped_events_count: span.dropped_events,
        links: links.collect(),
        dropped_links_count: 0,
        status: Some(status),
    }
}

fn pairs(attributes: Vec<(&'static str, Value)>) -> Vec<KeyValue> {
    let pairs = attributes.into_iter().map(|(name, value)| {
        let value = match value {
            Value::Text(text) => Any::StringValue(text),
            Value::Number(number) => Any::IntValue(number),
            Value::Real(number) => Any::DoubleValue(number),
            Value::Flag(flag) => Any::BoolValue(flag),
            Value::Texts(texts) => {
                let values = texts.into_iter().map(|text| AnyValue { value: Some(Any::StringValue(text)) });
                Any::ArrayValue(ArrayValue { values: values.collect() })
            }
        };
        pair(name, value)
    });
    pairs.collect()
}

fn pair(name: &str, value: Any) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn nanos(at: Timestamp) -> u64 {
    at.as_millis().saturating_mul(1_000_000)
}
