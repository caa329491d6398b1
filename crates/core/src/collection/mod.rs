//! What nobody owns, and how carefully it is collected (design, "Safety" 5).
