//! Parameter-efficient methods by the names that people and PEFT give them.

use alloc::{string::String, vec::Vec};
use gpuwise_domain::{
    catalogue::{distance, run_together},
    training::AdapterKind as K,
};

/// Names, run together in lower case, and what memory such a method needs. Read in the tuners of
/// `huggingface/peft@5d602fdbff04c33c1c4de55cda9d4ae1d7cb7e40:src/peft/tuners`.
const METHODS: [(&str, K); 56] = [
    ("lora", K::Lora),
    ("qlora", K::Lora),
    ("rslora", K::Lora),
    ("pissa", K::Lora),
    ("olora", K::Lora),
    ("loraga", K::Lora),
    ("eva", K::Lora),
    ("corda", K::Lora),
    ("loftq", K::Lora),
    ("lorafa", K::Lora),
    ("loraplus", K::Lora),
    ("bdlora", K::Lora),
    ("kasa", K::Lora),
    ("mica", K::Lora),
    ("dora", K::Dora),
    ("qdora", K::Dora),
    ("adalora", K::AdaLora),
    ("vera", K::Vera),
    ("pvera", K::Vera),
    ("ia3", K::Ia3),
    ("loha", K::LoHa),
    ("lokr", K::LoKr),
    ("oft", K::Oft),
    ("hra", K::Oft),
    ("boft", K::Boft),
    ("osf", K::Osf),
    ("prompttuning", K::Prompt),
    ("multitaskprompttuning", K::Prompt),
    ("ptuning", K::Prompt),
    ("cpt", K::Prompt),
    ("prefixtuning", K::Prefix),
    ("adaptionprompt", K::Prefix),
    ("cartridge", K::Prefix),
    ("lntuning", K::Partial),
    ("trainabletokens", K::Partial),
    ("beft", K::Partial),
    ("bitfit", K::Partial),
    ("fourierft", K::Spectral),
    ("c3a", K::Spectral),
    ("waveft", K::Spectral),
    ("randlora", K::Composed),
    ("hira", K::Composed),
    ("frod", K::Composed),
    ("shira", K::Composed),
    ("supertuning", K::Composed),
    ("adamss", K::Factored),
    ("glora", K::Factored),
    ("gralora", K::Factored),
    ("delora", K::Factored),
    ("deft", K::Factored),
    ("miss", K::Factored),
    ("bone", K::Factored),
    ("lily", K::Factored),
    ("peanut", K::Factored),
    ("psoft", K::Factored),
    ("vblora", K::Factored),
];

/// Further names of the last kind, kept apart only for the length of the list.
const FURTHER: [(&str, K); 5] = [
    ("tinylora", K::Factored),
    ("unilora", K::Factored),
    ("road", K::Ia3),
    ("xlora", K::Lora),
    ("poly", K::Lora),
];

/// The kind of a method by its name, however it is cased and separated.
pub fn adapter_named(name: &str) -> Option<K> {
    let wanted = run_together(name);
    METHODS
        .iter()
        .chain(&FURTHER)
        .find(|(known, _)| *known == wanted)
        .map(|(_, kind)| *kind)
}

/// Names of methods like this one, best first.
pub fn adapters_like(name: &str) -> Vec<String> {
    let wanted = run_together(name);
    let mut ranked: Vec<(usize, &str)> = METHODS
        .iter()
        .chain(&FURTHER)
        .map(|(known, _)| (distance(known, &wanted), *known))
        .collect();
    ranked.sort_unstable();
    ranked
        .iter()
        .take(3)
        .map(|(_, known)| (*known).into())
        .collect()
}
