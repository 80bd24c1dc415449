//! The worked examples of `docs/concepts` that are about simulation, run as tests.

macro_rules! pages {
    ($($page:ident: $file:literal,)*) => {
        $(
            #[doc = include_str!(concat!("../../../docs/concepts/", $file))]
            mod $page {}
        )*
    };
}

pages! {
    measuring_a_server: "measuring-a-server.md",
    simulated_cluster: "simulated-cluster.md",
    simulated_engine: "simulated-engine.md",
    simulation: "simulation.md",
}
