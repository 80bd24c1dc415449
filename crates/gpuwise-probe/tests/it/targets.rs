//! Addresses of servers.

use gpuwise_probe::bench::{Interface, Secret, Target};

#[track_caller]
fn check(given: &str, expected: Result<(&str, Option<Interface>), &str>) {
    match (Target::parse(given), expected) {
        (Ok(target), Ok((shown, interface))) => {
            assert_eq!(
                (target.shown().as_str(), target.interface()),
                (shown, interface),
                "{given}"
            );
        }
        (Err(error), Err(part)) => {
            let said = error.to_string();
            assert!(said.contains(part), "{said:?} without {part:?}");
            assert!(!said.contains("secret"), "{said}");
        }
        (found, expected) => panic!("{given}: {found:?} in place of {expected:?}"),
    }
}

#[test]
fn addresses_as_people_write_them() {
    let chat = Some(Interface::Chat);
    let completions = Some(Interface::Completions);
    check(
        "http://localhost:8000/v1",
        Ok(("http://localhost:8000/v1", None)),
    );
    check(
        "http://localhost:8000/v1/",
        Ok(("http://localhost:8000/v1", None)),
    );
    check("localhost:8000", Ok(("http://localhost:8000/v1", None)));
    check("https://example.com", Ok(("https://example.com/v1", None)));
    check(
        "https://example.com/api/v1/chat/completions",
        Ok(("https://example.com/api/v1", chat)),
    );
    check(
        "http://[::1]:8000/v1/completions",
        Ok(("http://[::1]:8000/v1", completions)),
    );
    check(
        "http://host/v1?api-key=secret",
        Ok(("http://host/v1", None)),
    );
}

#[test]
fn addresses_that_cannot_be() {
    check(
        "ftp://host/v1?key=secret",
        Err("must begin with http:// or https://"),
    );
    check(
        "http://user:secret@host/v1",
        Err("holds a name or password"),
    );
    check("http://", Err("is no address of a server"));
    check("http://a b", Err("is no address of a server"));
    assert!(Secret::new("two\nlines").is_err());
}
