//! Files and folders that only their owner may use, independent of the umask.
//!
//! Each one has its rights from the instant at which it exists: nothing is opened wide and closed afterwards. The modes are
//! those of Unix; elsewhere the rules of the folder apply.

mod closed;
mod owner;
mod places;
mod written;

pub use closed::{Closed, close, close_database};
pub use owner::{Ownership, is_ours, ownership};
pub use places::{cache_folder, state_folder};
pub use written::{create_new, make_folder, open_or_create, replace, replace_shared, reserve, write_new};
