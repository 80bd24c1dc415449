//! Networks that are run whole: diffusion, vision, speech, embeddings, recommenders.
