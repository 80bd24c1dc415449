//! Our custom resources: their types, schemas and definitions.
