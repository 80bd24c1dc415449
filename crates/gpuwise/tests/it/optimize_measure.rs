//! `gpuwise optimize --measure`: programs that print what llama.cpp printed stand for its tools, and a server of this
//! test's own for one that tells log-probabilities.

use crate::support::{Place, Ran, ggml_name, gguf, ran, tensors};
use serde_json::{Value, json};
use std::{
    env, fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    thread,
};

/// Real output of llama.cpp 0.5.0-dev (commit 0c1e570) on a random model of half a million parameters, in F32 and Q4_0.
const BEFORE: [&str; 2] = [
    include_str!("llamacpp/before.out"),
    include_str!("llamacpp/before.err"),
];
const BESIDE: [&str; 2] = [
    include_str!("llamacpp/beside.out"),
    include_str!("llamacpp/beside.err"),
];
const SHORT: [&str; 2] = ["", include_str!("llamacpp/short.err")];
const BENCH: &str = include_str!("llamacpp/bench.json");

/// The perplexities in that output.
const FIRST: f64 = 57_296.247_6;
const SECOND: f64 = 68_936.868_936;

/// A folder with two models and programs that print this: of a run that keeps log-probabilities, and of one beside it.
struct Case {
    place: Place,
}

impl Case {
    fn new(before: [&str; 2], beside: [&str; 2], bench: &str) -> Self {
        let place = Place::new();
        let named: Vec<_> = tensors(0..2, true)
            .into_iter()
            .map(|(name, shape)| (ggml_name(&name), shape))
            .collect();
        for model in ["original.gguf", "small.gguf"] {
            gguf(&place.path(model), &named, None);
        }
        for (name, text) in [
            ("before.out", before[0]),
            ("before.err", before[1]),
            ("beside.out", beside[0]),
            ("beside.err", beside[1]),
            ("bench.json", bench),
        ] {
            place.write(name, text);
        }
        // It keeps 23 pieces of 128 tokens over 405 words, as the real one did.
        let here = place.path("").display().to_string();
        let perplexity = format!(
            "cd {here}\ncase \"$*\" in\n*--kl-divergence) cat beside.out; cat beside.err >&2; exit 0;; esac\nwhile [ $# -gt 0 ]; do if [ \"$1\" = --kl-divergence-base ]; then printf '_logits_\\200\\0\\0\\0\\225\\001\\0\\0\\027\\0\\0\\0' > \"$2\"; truncate -s \"${{KEPT:-1199976}}\" \"$2\"; fi; shift; done\ncat before.out; cat before.err >&2"
        );
        for (name, script) in [
            ("llama-perplexity", perplexity),
            ("llama-bench", format!("cat {here}/bench.json")),
        ] {
            let path = place.write(&format!("bin/{name}"), format!("#!/bin/sh\n{script}\n"));
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        place.write("words.txt", "ba ne ba ne");
        Self { place }
    }

    fn real() -> Self {
        Self::new(BEFORE, BESIDE, BENCH)
    }

    fn run_with(&self, flags: &[&str], path: &str, kept: &str) -> Ran {
        let mut command = self.place.command(flags);
        let path = format!("{}:{path}", self.place.path("bin").display());
        ran(command.env("PATH", path).env("KEPT", kept))
    }

    fn measure(&self, flags: &[&str]) -> Ran {
        let all = [&["optimize", "small.gguf", "--measure"], flags].concat();
        let path = env::var("PATH").unwrap_or_default();
        self.run_with(&all, &path, "1199976")
    }
}

/// Figures by the names of their rows: before, after, change.
fn rows(ran: &Ran) -> Value {
    assert!(ran.err.is_empty() && ran.code == 0, "{}", ran.err);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    let rows = told["rows"].as_array().unwrap();
    rows.iter()
        .map(|row| (row["measure"].as_str().unwrap().to_owned(), row.clone()))
        .collect()
}

/// What is printed as one line: it breaks anywhere.
fn flat(ran: &Ran) -> String {
    ran.out.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn near(value: &Value, expected: f64) {
    let value = value.as_f64().unwrap();
    assert!((value / expected - 1.0).abs() < 1e-6, "{value} {expected}");
}

const BOTH: [&str; 4] = ["--against", "original.gguf", "--format", "json"];

#[test]
fn both_files_are_measured_as_llama_cpp_says() {
    let rows = rows(&Case::real().measure(&BOTH));
    near(&rows["perplexity"]["before"], FIRST);
    near(&rows["perplexity"]["before_error"], 6_215.105_07);
    near(&rows["perplexity"]["after"], SECOND);
    near(&rows["perplexity"]["after_error"], 7_545.520_04);
    near(&rows["perplexity"]["change"], SECOND / FIRST - 1.0);
    near(&rows["KL divergence"]["after"], 0.144_238);
    near(&rows["KL divergence"]["after_error"], 0.002_241);
    near(&rows["same first token"]["after"], 76.121);
    let bench: Value = serde_json::from_str(BENCH).unwrap();
    near(
        &rows["prompt, tokens/s"]["after"],
        bench[0]["avg_ts"].as_f64().unwrap(),
    );
    near(
        &rows["answer, tokens/s"]["after"],
        bench[1]["avg_ts"].as_f64().unwrap(),
    );
}

#[test]
fn an_end_that_was_lost_is_asked_for_again() {
    let case = Case::real();
    let tool = case.place.path("bin/llama-perplexity");
    let whole = case.place.path("bin/whole");
    fs::rename(&tool, &whole).unwrap();
    // Each kind of run says nothing of its end at first, and that it ended well.
    let script = format!(
        "#!/bin/sh\nseen={0}.$#\nif [ -f $seen ]; then exec {0} \"$@\"; fi\ntouch $seen\n{0} \"$@\" 2>/dev/null | head -n 1\n",
        whole.display()
    );
    fs::write(&tool, script).unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    let rows = rows(&case.measure(&BOTH));
    near(&rows["perplexity"]["before"], FIRST);
    near(&rows["perplexity"]["after"], SECOND);
}

#[test]
fn alone_a_file_has_a_perplexity_and_no_loss() {
    let ran = Case::real().measure(&["--text", "words.txt"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("57296 ± 6215"), "{}", ran.out);
    assert!(ran.out.contains("--against"), "{}", ran.out);
    assert!(!ran.out.contains("KL"), "{}", ran.out);
}

#[test]
fn what_is_not_as_known_is_an_error_that_shows_it() {
    let spoilt = |from: &str, to: &str| BESIDE[0].replace(from, to);
    let nan = spoilt("0.144238 ±   0.002241", "nan ±   nan");
    let renamed = spoilt("Same top p:", "Same top-1 p:");
    let twice = format!("{0}\n{0}", BESIDE[0]);
    let impossible = spoilt("76.121 ± 1.120 %\n\n", "176.121 ± 1.120 %\n\n");
    let endless = BEFORE[1].replace("57296.2476 +/-", "inf +/-");
    let cases: [([&str; 2], [&str; 2], &str, &str); 9] = [
        (SHORT, BESIDE, BENCH, "you need at least"),
        (["", ""], BESIDE, BENCH, "it printed nothing"),
        ([BEFORE[0], &endless], BESIDE, BENCH, "inf +/-"),
        (BEFORE, [&nan, BESIDE[1]], BENCH, "nan"),
        (BEFORE, [&renamed, BESIDE[1]], BENCH, "Same top p"),
        (BEFORE, [&twice, BESIDE[1]], BENCH, "once"),
        (BEFORE, [&impossible, BESIDE[1]], BENCH, "cannot be"),
        (BEFORE, BESIDE, "[\n", "JSON"),
        (BEFORE, BESIDE, "[]", "512 tokens in"),
    ];
    for (before, beside, bench, said) in cases {
        let ran = Case::new(before, beside, bench).measure(&BOTH);
        assert_ne!(ran.code, 0, "{said}");
        assert!(ran.err.contains(said), "{said}: {}", ran.err);
        assert!(ran.out.is_empty(), "{said}: {}", ran.out);
    }
}

#[test]
fn a_disk_that_is_full_and_tools_that_are_missing_are_said() {
    let case = Case::real();
    let flags = [
        "optimize",
        "small.gguf",
        "--measure",
        "--against",
        "original.gguf",
    ];
    let path = env::var("PATH").unwrap_or_default();
    let full = case.run_with(&flags, &path, "70000");
    assert!(full.err.contains("70000 of 1199976 bytes"), "{}", full.err);
    fs::remove_file(case.place.path("bin/llama-bench")).unwrap();
    let missing = case.run_with(&flags, "/nowhere", "");
    assert!(
        missing.err.contains("llama-bench is not on the PATH"),
        "{}",
        missing.err
    );
    assert!(
        missing.err.contains("ggml-org/llama.cpp"),
        "{}",
        missing.err
    );
}

#[test]
fn what_was_measured_is_kept_and_vetoes() {
    let case = Case::real();
    let plan = |model: &str, most: &str| {
        case.place.run(&[
            "plan",
            model,
            "--gpu",
            "L4",
            "--rate",
            "1",
            "--isl",
            "50",
            "--osl",
            "20",
            "--max-quality-loss",
            most,
        ])
    };
    assert_eq!(plan("small.gguf", "1%").code, 0);
    for _ in 0..2 {
        let saved = case.measure(&[
            "--against",
            "original.gguf",
            "--text",
            "words.txt",
            "--save",
        ]);
        assert_eq!(saved.code, 0, "{}", saved.err);
        assert!(saved.out.contains("kept in"), "{}", saved.out);
    }
    let file = case
        .place
        .path(".config/gpuwise/catalogue/quality-measured.csv");
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text.lines().count(), 2, "the same is kept once: {text}");
    for said in [
        "perplexity of words.txt",
        "0c1e570",
        "23 pieces of 128 tokens",
        "1449 tokens scored",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let refused = plan("small.gguf", "1%");
    assert_ne!(refused.code, 0, "{}", refused.out);
    let said = "loses 20.32 % (perplexity of words.txt,";
    assert!(flat(&refused).contains(said), "{}", refused.out);
    let offered = plan("small.gguf", "25%");
    assert_eq!(offered.code, 0, "{}", offered.err);
    assert!(flat(&offered).contains("measured here"), "{}", offered.out);
    // Its original loses nothing, nor does a file of another size that has the same name.
    assert_eq!(plan("original.gguf", "1%").code, 0);
    let text = text.replace(",small.gguf,", ",small.gguf,1");
    fs::write(&file, text).unwrap();
    assert_eq!(plan("small.gguf", "1%").code, 0);
}

/// Serves completions with these log-probabilities until the test ends.
fn server(
    model: &'static str,
    answer: impl Fn(&Value) -> Value + Send + Clone + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that leaves ends its own connection only.
            let _ = served(stream, model, &answer);
        }
    });
    address
}

fn served(
    mut stream: TcpStream,
    model: &str,
    answer: &impl Fn(&Value) -> Value,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut path, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if path.is_empty() {
            line.split(' ').nth(1).unwrap_or("").clone_into(&mut path);
        }
        if let Some(count) = line.to_lowercase().strip_prefix("content-length: ") {
            length = count.trim().parse().unwrap_or(0);
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let told = if path == "/v1/models" {
        json!({"object": "list", "data": [{"id": model}]})
    } else {
        answer(&serde_json::from_slice(&body)?)
    };
    let told = told.to_string();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{told}",
        told.len()
    )
}

/// A token a letter, each with this log-probability and `e` the likeliest but for every `odd`th.
fn told(asked: &Value, log: impl Fn(usize) -> f64, odd: usize) -> Value {
    assert!(asked["echo"] == true && asked["logprobs"] == 1 && asked["max_tokens"] == 1);
    let prompt = asked["prompt"].as_str().unwrap();
    let mut tokens: Vec<String> = prompt.chars().map(String::from).collect();
    let count = tokens.len();
    tokens.push("!".into());
    let logs: Vec<Value> = (0..=count)
        .map(|at| if at == 0 { Value::Null } else { json!(log(at)) })
        .collect();
    let tops: Vec<Value> = (0..=count)
        .map(|at| json!({if at % odd == 0 { "x" } else { "e" }: -0.1, "z": -9.0}))
        .collect();
    json!({
        "choices": [{"text": "", "logprobs": {"tokens": tokens, "token_logprobs": logs, "top_logprobs": tops}}],
        "usage": {"prompt_tokens": count, "completion_tokens": 1},
    })
}

fn asked(place: &Place, flags: &[&str]) -> Ran {
    ran(&mut place.online(&[&["optimize"], flags].concat()))
}

#[test]
fn servers_are_compared_token_by_token_and_a_plan_goes_by_it() {
    let place = Place::new();
    place.write(
        "text.txt",
        "all that is gold does not glitter, not all those who wander are lost ".repeat(20),
    );
    let before = server("big", |asked| told(asked, |_| -1.0, 1_000_000));
    // A form is often served under the name of its original.
    let after = server("meta-llama/Llama-3.1-8B-Instruct", |asked| {
        told(asked, |at| if at % 2 == 0 { -1.06 } else { -1.0 }, 4)
    });
    let flags = [
        after.as_str(),
        "--measure",
        "--against",
        &before,
        "--text",
        "text.txt",
        "--piece",
        "16",
        "--save",
        "--to",
        "fp8",
        "--of",
        "meta-llama/Llama-3.1-8B-Instruct",
        "--format",
        "json",
    ];
    let rows = rows(&asked(&place, &flags));
    near(&rows["perplexity"]["before"], 1_f64.exp());
    let change = rows["perplexity"]["change"].as_f64().unwrap();
    assert!((change - (0.03_f64.exp() - 1.0)).abs() < 3e-3, "{change}");
    let same = rows["same first token"]["after"].as_f64().unwrap();
    assert!((same - 75.0).abs() < 1.0, "{same}");
    let plan = |most: &str| {
        place.run(&[
            "plan",
            "meta-llama/Llama-3.1-8B-Instruct",
            "--gpu",
            "L4",
            "--rate",
            "2",
            "--precision",
            "fp8",
            "--max-quality-loss",
            most,
        ])
    };
    let (refused, offered) = (plan("1%"), plan("5%"));
    assert_ne!(refused.code, 0, "{}", refused.out);
    assert!(
        flat(&offered).contains("perplexity of text.txt"),
        "{}",
        offered.out
    );
    assert!(flat(&offered).contains("measured here"), "{}", offered.out);
    // The original has lost nothing by it.
    let original = place.run(&[
        "plan",
        "meta-llama/Llama-3.1-8B-Instruct",
        "--gpu",
        "H100",
        "--rate",
        "2",
        "--max-quality-loss",
        "0.1%",
    ]);
    assert_eq!(original.code, 0, "{}", original.out);
}

#[test]
fn servers_that_tell_no_prompt_and_wrong_pairs_are_refused() {
    let place = Place::new();
    place.write("text.txt", "ever so many words ".repeat(40));
    let generated = |asked: &Value| {
        let mut told = told(asked, |_| -1.0, 9);
        for of in ["tokens", "token_logprobs", "top_logprobs"] {
            let last = told["choices"][0]["logprobs"][of]
                .as_array()
                .unwrap()
                .last()
                .cloned();
            told["choices"][0]["logprobs"][of] = json!([last]);
        }
        told
    };
    let other = |asked: &Value| {
        let mut told = told(asked, |_| -1.0, 9);
        told["choices"][0]["logprobs"]["tokens"][40] = json!("another");
        told
    };
    let right = server("right", |asked| told(asked, |_| -1.0, 9));
    let cases = [
        (
            server("echoless", generated),
            "it tells 1 log-probabilities of a prompt",
        ),
        (
            server(
                "none",
                |_| json!({"choices": [{"logprobs": null}], "usage": {"prompt_tokens": 9, "completion_tokens": 1}}),
            ),
            "no log-probabilities",
        ),
        (
            server("least", |asked| told(asked, |_| -9999.0, 9)),
            "-9999",
        ),
        (
            server("odd", |_| json!({"object": "error"})),
            "no completion",
        ),
        (server("other", other), "different tokens"),
    ];
    for (address, said) in &cases {
        let flags = [
            address.as_str(),
            "--measure",
            "--against",
            &right,
            "--text",
            "text.txt",
            "--piece",
            "16",
        ];
        let ran = asked(&place, &flags);
        assert_ne!(ran.code, 0, "{said}");
        assert!(ran.err.contains(said), "{said}: {}", ran.err);
    }
    for (flags, said) in [
        (
            vec![right.as_str(), "--measure", "--against", "original.gguf"],
            "a file and a server",
        ),
        (
            vec![&right, "--measure", "--against", &right, "--save"],
            "--to",
        ),
        (vec!["there-is-none.gguf", "--measure"], "is not there"),
        (vec!["text.txt", "--measure"], "text.txt"),
        (vec!["text.txt", "--measure", "--to", "fp8"], "--to fp8"),
        (vec![&right, "--measure", "--rate", "2"], "--advise"),
        (vec![&right, "--measure", "--lora", "adapter"], "--lora"),
        (vec![&right, "--measure", "--fuse", "qkv"], "--fuse"),
        (vec![&right, "--measure", "--rotate"], "--rotate"),
        (
            vec![&right, "--measure", "--sparse-as", "dense"],
            "--sparse-as",
        ),
        (
            vec![&right, "--measure", "--text", "nothing.txt"],
            "nothing.txt",
        ),
    ] {
        let ran = asked(&place, &flags);
        assert_ne!(ran.code, 0, "{said}");
        assert!(ran.err.contains(said), "{said}: {}", ran.err);
    }
}
