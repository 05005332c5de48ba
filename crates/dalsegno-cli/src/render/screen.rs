//! What may reach a reader as it is; the rule is that of every screen.

pub(crate) use dalsegno_screen::{InertLines, Prose, Screened, inert, is_plain, screened};
