//! The screen of the terminal debugger.
//!
//! A [`Model`] takes keys and answers with a [`Wish`] where a key needs more than the screen: a page of a step, a search, a
//! fork. The program that drives it grants the wish and tells the model what came of it. [`draw`] draws the model. Neither reads a
//! journal, a clock or a terminal, so both are tested like functions.
//!
//! All that is shown was recorded from other parties. It becomes a [`Text`], of which every character can be seen and none
//! steers a terminal.

mod draw;
mod model;
mod text;

pub use draw::{HEIGHT_MIN, WIDTH_MIN, draw};
pub use model::{Key, Mark, Model, Page, Row, Tab, Wish};
pub use text::{Text, Tone};
