//! Words of prompts, as a server sees them.

use crate::scripted::{AS_DUE, Server, answer, load, options, prepared, requests, sent};
use gpuwise_domain::request::{Request, Segment};

/// The prompts of three requests of two groups that share 16 tokens, and of another seed.
fn sent_prompts(seed: u64, first_number: u64) -> Vec<String> {
    let server = Server::start(answer);
    let mut options = options(&server.address);
    options.prompt_seed = seed;
    let prepared = prepared(&server, options);
    let traffic = requests(3, 24, 1).into_iter().zip([0, 1, 0]);
    let traffic = traffic.map(|(request, content)| Request {
        prefix: Some(Box::new([Segment {
            content,
            tokens: 16,
        }])),
        ..request
    });
    let mut load = load(traffic.collect(), gpuwise_probe::bench::Pacing::InFlight(1));
    load.first_number = first_number;
    sent(&prepared, load);
    server
        .of_load()
        .iter()
        .map(crate::scripted::ResourceRequest::prompt)
        .collect()
}

fn beginning(prompt: &str) -> Vec<&str> {
    prompt.split(' ').take(16).collect()
}

#[test]
fn prompts_share_what_they_shall_and_nothing_else() {
    let prompts = sent_prompts(1, 0);
    assert_eq!(beginning(&prompts[0]), beginning(&prompts[2]));
    assert_ne!(beginning(&prompts[0]), beginning(&prompts[1]));
    assert_ne!(prompts[0], prompts[2]);
    assert_eq!(prompts, sent_prompts(1, 0), "a seed repeats them");
    let others = sent_prompts(2, 0);
    assert!(
        others
            .iter()
            .all(|other| beginning(other) != beginning(&prompts[0]))
    );
    let later = sent_prompts(1, 3);
    assert_eq!(
        beginning(&later[0]),
        beginning(&prompts[0]),
        "shared content stays"
    );
    assert!(
        later.iter().all(|other| !prompts.contains(other)),
        "a request's own does not"
    );
}

#[test]
fn a_prompt_has_a_word_at_least() {
    let server = Server::start(answer);
    let prepared = prepared(&server, options(&server.address));
    let (measured, _) = sent(&prepared, load(requests(1, 0, 0), AS_DUE));
    assert_eq!(
        (measured[0].record.input, measured[0].record.output),
        (1, 1)
    );
}
