//! What goes wrong, and how often.
