//! What is said while an answer is worked out. Silent until somebody listens, as a library should be.

use std::sync::OnceLock;

/// Who hears what is said meanwhile.
pub trait Listener: Send + Sync {
    /// Something that stays, such as what a fit looks at now.
    fn say(&self, text: &str);
    /// What is being done now, in place of what was done before; nothing any more, where it is empty.
    fn doing(&self, text: &str);
}

static LISTENER: OnceLock<Box<dyn Listener>> = OnceLock::new();

/// Lets this one hear; the first stays.
pub fn listen(listener: Box<dyn Listener>) {
    let _ = LISTENER.set(listener);
}

/// Says something that stays.
pub fn say(text: &str) {
    if let Some(listener) = LISTENER.get() {
        listener.say(text);
    }
}

/// Says what is being done now; an empty text ends it.
pub fn doing(text: &str) {
    if let Some(listener) = LISTENER.get() {
        listener.doing(text);
    }
}
