//! The image that a lease names: whether it can be one, and whether anybody here runs it.

use super::Problem;
use gpuwise_wire::broker::LeaseAsk;

/// Letters of a reference to an image at most; registries take less.
const LONGEST: usize = 512;

/// Whether what a lease says of its image can be. What a registry has is seen when it is pulled.
pub(super) fn checked(ask: &LeaseAsk, executor: &str, taken: bool) -> Result<(), Problem> {
    let Some(image) = &ask.image else {
        return Ok(());
    };
    if !taken {
        let what = format!(
            "leases run in no image here (--executor {executor}): leave it out, or ask a broker whose leases are pods"
        );
        return Err(Problem::invalid("image", what));
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"./:@_-".contains(&byte);
    let named =
        image.starts_with(|one: char| one.is_ascii_alphanumeric()) && image.bytes().all(plain);
    if !named || image.len() > LONGEST {
        let what = format!("{image:?}: expected an image such as registry.example/team/train:1.4");
        return Err(Problem::invalid("image", what));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_a_reference_and_taken_where_leases_are_pods() {
        let ask = |image: &str| LeaseAsk {
            image: Some(image.into()),
            ..LeaseAsk::default()
        };
        for good in [
            "busybox",
            "vllm/vllm-openai:v0.12.0",
            "registry.example:5000/a/b@sha256:0123abcd",
        ] {
            assert!(checked(&ask(good), "kubernetes", true).is_ok(), "{good}");
        }
        for wrong in ["", "a b", "-x", "a\n", "x$(y)", &"a".repeat(600)] {
            assert!(checked(&ask(wrong), "kubernetes", true).is_err(), "{wrong}");
        }
        assert!(checked(&ask("busybox"), "slurm", false).is_err());
        assert!(checked(&LeaseAsk::default(), "slurm", false).is_ok());
    }
}
