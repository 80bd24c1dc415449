use super::*;
use std::collections::BTreeMap;

/// What names resolve to, and which addresses are the broker's.
struct Known {
    names: BTreeMap<&'static str, Vec<&'static str>>,
    own: Vec<IpAddr>,
}

impl Network for Known {
    fn resolve(&self, host: &str, _: u16) -> Vec<IpAddr> {
        if let Ok(address) = host.parse() {
            return vec![plain(address)];
        }
        let all = self.names.get(host).into_iter().flatten();
        all.map(|text| plain(text.parse().expect("an address")))
            .collect()
    }

    fn is_own(&self, address: IpAddr) -> bool {
        self.own.contains(&address)
    }
}

fn network() -> Known {
    let names = [
        ("n1", vec!["10.0.0.1"]),
        ("n2", vec!["10.0.0.2", "fd00::2"]),
        ("head", vec!["10.0.0.9"]),
        ("loops", vec!["127.0.0.1"]),
        ("tells", vec!["169.254.169.254"]),
        ("mapped", vec!["::ffff:169.254.169.254"]),
        ("rebinds", vec!["10.0.0.3", "127.0.0.1"]),
        ("alias.of.n1", vec!["10.0.0.1"]),
    ];
    Known {
        names: names.into_iter().collect(),
        own: vec!["10.0.0.9".parse().expect("one")],
    }
}

/// Addresses and names are separated by spaces.
fn at(given: &str, nodes: &str, said: &str) -> Result<String, String> {
    let text = |all: &str| all.split_whitespace().map(str::to_owned).collect();
    let runs = RunsAt {
        given: text(given),
        nodes: text(nodes),
    };
    let said = PageSaid::read(said).map_err(|error| error.to_string())?;
    let page = runs.page(&said, &network())?;
    Ok(page.at.to_string())
}

#[test]
fn pages_are_read_where_the_lease_runs_and_nowhere_else() {
    let cases: [(&str, &str, &str, Result<&str, &str>); 22] = [
        // Where it was given a port.
        ("127.0.0.1:4000", "n1", "/metrics", Ok("127.0.0.1:4000")),
        ("n1:20000 n2:20001", "n1 n2", "/m", Ok("10.0.0.1:20000")),
        ("", "n1", "/metrics", Err("given no port")),
        // Its nodes, by name, by address, and by another name for the same address.
        ("", "n1", "http://n1:8000/metrics", Ok("10.0.0.1:8000")),
        (
            "",
            "n1",
            "http://10.0.0.1:8000/metrics",
            Ok("10.0.0.1:8000"),
        ),
        (
            "",
            "n1",
            "http://[::ffff:10.0.0.1]:8000/metrics",
            Ok("10.0.0.1:8000"),
        ),
        ("", "n1 n2", "https://[fd00::2]:8443/", Ok("[fd00::2]:8443")),
        (
            "",
            "n1",
            "http://alias.of.n1:8000/metrics",
            Ok("10.0.0.1:8000"),
        ),
        // Others.
        (
            "",
            "n1",
            "http://n2:8000/metrics",
            Err("not where the lease runs (n1)"),
        ),
        ("", "n1", "http://rebinds:8000/metrics", Err("not where")),
        (
            "",
            "n1",
            "http://unknown:8000/metrics",
            Err("has no address"),
        ),
        ("", "", "http://n1:8000/metrics", Err("not where")),
        // A node whose name resolves to what no node may be.
        ("", "loops", "http://loops:8000/metrics", Err("not where")),
        ("", "tells", "http://tells:8000/latest", Err("not where")),
        ("", "mapped", "http://mapped:8000/latest", Err("not where")),
        // Where the broker runs: what the lease was given, and no other port.
        ("", "head", "http://head:8600/metrics", Err("not where")),
        (
            "head:4000",
            "head",
            "http://head:4000/metrics",
            Ok("10.0.0.9:4000"),
        ),
        (
            "head:4000",
            "head",
            "http://head:5432/metrics",
            Err("not where"),
        ),
        (
            "127.0.0.1:4000",
            "n1",
            "http://127.0.0.1:8600/",
            Err("no address of a node"),
        ),
        ("", "n1", "http://n1:22/metrics", Err("port 22")),
        ("", "n1", "http://n1/metrics", Err("port 80")),
        ("", "n1", "http://n1:8000@n2:8000/", Err("expected a path")),
    ];
    for (given, nodes, said, expected) in cases {
        match (at(given, nodes, said), expected) {
            (Ok(at), Ok(expected)) => assert_eq!(at, expected, "{said}"),
            (Err(why), Err(expected)) => assert!(why.contains(expected), "{said}: {why}"),
            (came, _) => panic!("{said} of {given:?} {nodes:?}: {came:?}"),
        }
    }
}

#[test]
fn no_spelling_of_an_address_that_is_no_nodes_passes() {
    let hosts = [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.0x1",
        "0",
        "0.0.0.0",
        "localhost",
        "LOCALHOST.",
        "a.localhost",
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "0xa9.0xfe.0xa9.0xfe",
        "0251.0376.0251.0376",
        "169.254.43518",
        "[::1]",
        "[::]",
        "[::127.0.0.1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:ffff:a9fe:a9fe]",
        "[64:ff9b::a9fe:a9fe]",
        "[fe80::1]",
        "[ff02::1]",
        "255.255.255.255",
        "224.0.0.1",
    ];
    for host in hosts {
        for scheme in ["http", "https", "HTTP"] {
            let said = format!("{scheme}://{host}:8000/metrics");
            assert!(PageSaid::read(&said).is_err(), "{said}");
        }
    }
    let forms = [
        "",
        "metrics",
        "//n1/metrics",
        "ftp://n1:8000/",
        "http://:8000/",
        "http://n 1:8000/",
        "http://n1:x/",
        "http://n1:70000/",
        "file:///etc/passwd",
        "http://n1%2f:8000/",
    ];
    for said in forms {
        assert_eq!(PageSaid::read(said), Err(PageSaidError::Form), "{said}");
    }
}

#[test]
fn a_tenant_has_so_many_reads_and_a_page_one() {
    let reads = Reads::default();
    let first = reads.begin("a", "1", 2);
    assert!(first.is_some());
    assert!(reads.begin("a", "1", 2).is_none(), "it is being read");
    let second = reads.begin("a", "2", 2);
    assert!(second.is_some() && reads.begin("a", "3", 2).is_none());
    assert!(reads.begin("b", "1", 2).is_some(), "another has its own");
    drop(first);
    assert!(reads.begin("a", "3", 2).is_some());
}
