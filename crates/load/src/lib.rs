//! Brings files into tables: sources, schema agreement, clustering, sideways metadata.
