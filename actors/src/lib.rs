//! The life of a pod from pending to bound, one actor a file.
