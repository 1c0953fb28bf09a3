//! Objects packed in chunks: index, versions, object GC
