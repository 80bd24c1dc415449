use super::*;
use crate::resources::{GpuWorkloadStatus, Phase};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

fn decided(gpu: &str, replicas: i32) -> Decided {
    Decided {
        gpu: gpu.into(),
        gpus_per_replica: 1,
        replicas,
        engine: "vllm".into(),
        ..Decided::default()
    }
}

const LIMITS: Limits = Limits {
    rollout: SignedDuration::from_secs(60),
    verify: SignedDuration::from_secs(100),
    avoid: SignedDuration::from_secs(1000),
};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

fn moved() -> GpuWorkloadStatus {
    let mut status = GpuWorkloadStatus {
        decision: Some(decided("H100", 1)),
        ..GpuWorkloadStatus::default()
    };
    begin(
        &mut status,
        decided("L4", 1),
        ChangeReason::TooLarge,
        "1.1",
        at(0),
    );
    status
}

fn look(second: i64, rollout: Rollout, slo: Option<SloSeen>) -> Look {
    Look {
        now: at(second),
        rollout,
        slo,
    }
}

/// Does what is to be done, as the operator would.
fn carry(status: &mut GpuWorkloadStatus, look: &Look) -> Next {
    let next = next(status, look, &LIMITS);
    match next {
        Next::Stay => {}
        Next::Verify => verify(status, look.now),
        Next::Settle => settle(status),
        Next::Back(why) => back(status, (why, "it"), "1.2", &LIMITS, look.now),
    }
    next
}

fn missed() -> SloSeen {
    SloSeen::Missed("late".into())
}

#[test]
fn what_keeps_its_slo_stays_and_what_misses_it_later_goes_back() {
    let mut status = moved();
    assert_eq!(
        carry(&mut status, &look(10, Rollout::UnderWay, Some(missed()))),
        Next::Stay
    );
    assert_eq!(
        carry(&mut status, &look(20, Rollout::Done, None)),
        Next::Verify
    );
    // Old pods were late, not the new ones.
    assert_eq!(status.missed, 0);
    let kept = Some(SloSeen::Kept("in time".into()));
    assert_eq!(
        carry(&mut status, &look(50, Rollout::Done, Some(missed()))),
        Next::Stay
    );
    assert_eq!(
        carry(&mut status, &look(60, Rollout::Done, kept)),
        Next::Stay
    );
    assert_eq!(
        carry(&mut status, &look(120, Rollout::Done, None)),
        Next::Settle
    );
    assert_eq!(status.previous, Some(decided("H100", 1)));
    for _ in 1..MISSES {
        assert_eq!(
            carry(&mut status, &look(900, Rollout::Done, Some(missed()))),
            Next::Stay
        );
        assert_eq!(
            carry(&mut status, &look(900, Rollout::Done, None)),
            Next::Stay
        );
    }
    let last = carry(&mut status, &look(901, Rollout::Done, Some(missed())));
    assert_eq!(last, Next::Back(ChangeReason::SloMissed));
    assert_eq!(status.decision, Some(decided("H100", 1)));
    assert!(status.avoided[0].names(&decided("L4", 3)));
    assert_eq!(
        carry(&mut status, &look(950, Rollout::Done, None)),
        Next::Settle
    );
    // There is nothing left to go back to.
    for _ in 0..5 {
        assert_eq!(
            carry(&mut status, &look(960, Rollout::Done, Some(missed()))),
            Next::Stay
        );
    }
}

#[test]
fn what_is_not_rolled_out_in_time_goes_back() {
    let mut status = moved();
    assert_eq!(
        carry(&mut status, &look(59, Rollout::UnderWay, None)),
        Next::Stay
    );
    let late = carry(&mut status, &look(60, Rollout::UnderWay, None));
    assert_eq!(late, Next::Back(ChangeReason::NotReady));
    assert_eq!(
        status.change.as_ref().map(|change| change.phase),
        Some(Phase::RollingBack)
    );
}

#[test]
fn who_had_too_little_does_not_get_it_back() {
    let mut status = GpuWorkloadStatus {
        decision: Some(decided("L4", 1)),
        ..GpuWorkloadStatus::default()
    };
    begin(
        &mut status,
        decided("H100", 1),
        ChangeReason::TooSmall,
        "1.1",
        at(0),
    );
    carry(&mut status, &look(1, Rollout::Done, None));
    for second in 2..90 {
        assert_eq!(
            carry(&mut status, &look(second, Rollout::Done, Some(missed()))),
            Next::Stay
        );
    }
    assert_eq!(
        carry(&mut status, &look(101, Rollout::Done, Some(missed()))),
        Next::Settle
    );
    assert_eq!(
        carry(&mut status, &look(102, Rollout::Done, Some(missed()))),
        Next::Stay
    );
}

#[test]
fn a_change_must_be_worth_it() {
    let (h100, l4) = (decided("H100", 1), decided("L4", 1));
    let large = |old, new| worth(Verdict::TooLarge, (&h100, old), (&l4, new));
    assert_eq!(large(Some(100), Some(90)), Ok(ChangeReason::TooLarge));
    assert!(large(Some(100), Some(91)).is_err());
    assert!(large(None, Some(1)).is_err());
    let same = worth(Verdict::TooLarge, (&h100, Some(100)), (&h100, Some(1)));
    assert!(same.is_err());
    let small = |old, new| worth(Verdict::TooSmall, (&l4, old), (&h100, new));
    assert_eq!(small(Some(1), Some(2)), Ok(ChangeReason::TooSmall));
    assert_eq!(small(None, None), Ok(ChangeReason::TooSmall));
    assert!(small(Some(2), Some(1)).is_err());
    assert!(worth(Verdict::Untold, (&h100, Some(9)), (&l4, Some(1))).is_err());
}

proptest! {
    /// Whatever is seen in whatever order: it serves what it was given or what was before, never something third,
    /// and a change is over after its times.
    #[test]
    fn a_change_ends(seen in prop::collection::vec((1..40_i64, any::<bool>(), 0..4_u8), 1..60)) {
        let mut status = moved();
        let mut now = 0;
        for (wait, done, slo) in seen {
            now += wait;
            let rollout = if done { Rollout::Done } else { Rollout::UnderWay };
            let slo = match slo {
                0 => Some(missed()),
                1 => Some(SloSeen::Kept(String::new())),
                2 => Some(SloSeen::Untold(String::new())),
                _ => None,
            };
            carry(&mut status, &look(now, rollout, slo));
            let gpu = status.decision.as_ref().map(|one| one.gpu.as_str());
            prop_assert!(matches!(gpu, Some("H100" | "L4")));
            prop_assert!(status.avoided.len() <= 1);
        }
        for _ in 0..3 {
            now += 100;
            carry(&mut status, &look(now, Rollout::Done, None));
        }
        prop_assert!(status.change.is_none());
    }
}

#[test]
fn time_alone_ends_a_phase_where_it_is_said_to() {
    let mut status = moved();
    for (rollout, wait) in [(Rollout::UnderWay, 60), (Rollout::Done, 100)] {
        if rollout == Rollout::Done {
            status = moved();
            carry(&mut status, &look(0, rollout, None));
        }
        let left = ends(&status, &LIMITS, at(0)).expect("a phase is under way");
        assert_eq!(left.as_secs(), wait);
        let wait = i64::try_from(wait).expect("a time");
        let early = next(&mut status.clone(), &look(wait - 1, rollout, None), &LIMITS);
        assert_eq!(early, Next::Stay);
        assert_ne!(carry(&mut status, &look(wait, rollout, None)), Next::Stay);
        // Nobody goes back from going back, and what is over is waited for no more.
        assert_eq!(ends(&status, &LIMITS, at(wait)), None);
    }
}
