//! Zone maps: what is known of a column chunk without reading it.
