//! The worked examples of `docs/concepts` that are about placing, run as tests.

macro_rules! pages {
    ($($page:ident: $file:literal,)*) => {
        $(
            #[doc = include_str!(concat!("../../../docs/concepts/", $file))]
            mod $page {}
        )*
    };
}

pages! {
    disruption: "disruption.md",
    fragmentation: "fragmentation.md",
    fairness: "fairness.md",
    mig_geometry: "mig-geometry.md",
    sharing: "sharing.md",
}
