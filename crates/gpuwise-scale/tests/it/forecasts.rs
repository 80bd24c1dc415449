//! What forecasts do on series that are made for it.

use gpuwise_scale::forecast::{
    APART, ByClient, Forecast, Forecaster, Settings,
    backtest::{Judged, backtest},
    series::regular,
};
use gpuwise_units::{Nanoseconds, RandomStream};
use proptest::prelude::*;

const TEN_MINUTES: u64 = 600_000_000_000;
const DAY: usize = 144;

fn settings(horizons: &[u32]) -> Settings {
    Settings {
        period: Nanoseconds(TEN_MINUTES),
        horizons: horizons.to_vec(),
    }
}

/// After these readings, so many periods ahead.
fn after(readings: &[Option<f64>], horizon: u32) -> Forecast {
    let mut forecaster = Forecaster::new(settings(&[horizon]));
    tell(&mut forecaster, readings);
    forecaster.forecasts()[0]
}

fn tell(forecaster: &mut Forecaster, readings: &[Option<f64>]) {
    for reading in readings {
        forecaster.observe(*reading);
    }
}

/// Whether two are the same but for the last digits.
fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * other.abs().max(1.0)
}

fn known(values: impl IntoIterator<Item = f64>) -> Vec<Option<f64>> {
    values.into_iter().map(Some).collect()
}

/// A day's way around 100 with errors of a tenth.
fn days(count: usize, seed: u64) -> Vec<f64> {
    let mut stream = RandomStream::new(seed, "demand", 0);
    (0..count * DAY)
        .map(|at| {
            let phase = (at % DAY) as f64 / DAY as f64;
            // Up for half a day, down for the other.
            let way = 1.0 - (phase - 0.5).abs() * 1.6;
            let error = (0..6).map(|_| stream.uniform()).sum::<f64>() / 3.0 - 1.0;
            100.0 * way * (1.0 + 0.2 * error)
        })
        .collect()
}

fn judged(values: &[f64], horizon: u32, from: usize) -> Judged {
    let times = values.iter().enumerate();
    let readings: Vec<(f64, f64)> = times
        .map(|(at, value)| (at as f64 * 600.0, *value))
        .collect();
    let series = regular(&readings, None).expect("a series");
    backtest(&settings(&[horizon]), &series, &[], from)[0]
}

#[test]
fn a_constant_stays_and_its_range_is_a_number() {
    let forecast = after(&known([7.0; 200]), 3);
    assert!(near(forecast.point, 7.0), "{forecast:?}");
    for value in forecast.quantiles.iter().chain(&forecast.highest) {
        assert!((6.5..=7.5).contains(value), "{value}");
    }
    let nothing = after(&known([0.0; 50]), 1);
    assert!(
        near(nothing.point, 0.0) && near(nothing.at(0.99), 0.0),
        "{nothing:?}"
    );
}

#[test]
fn twelve_readings_and_one_are_enough_to_say_something() {
    let twelve = after(&known((0..12).map(|at| 10.0 + f64::from(at % 3))), 1);
    assert!((9.0..=13.0).contains(&twelve.point), "{twelve:?}");
    assert!(twelve.at(0.10) < twelve.at(0.90));
    let one = after(&known([5.0]), 2);
    assert!(near(one.point, 5.0), "{one:?}");
    assert!(one.at(0.05) < 5.0 && one.at(0.95) > 5.0);
    assert!(Forecaster::new(settings(&[1])).forecasts()[..].is_empty());
}

#[test]
fn ranges_hold_what_they_promise() {
    for horizon in [1, 3] {
        let judged = judged(&days(10, 1), horizon, 2 * DAY);
        for (at, level) in gpuwise_scale::forecast::LEVELS.iter().enumerate() {
            let off = judged.covered[at] - level;
            assert!(
                off.abs() < 0.02,
                "{horizon} ahead, {level}: {}",
                judged.covered[at]
            );
            let off = judged.covered_highest[at] - level;
            assert!(off.abs() < 0.02, "{horizon} ahead, highest {level}: {off}");
        }
        assert!(judged.wape < judged.wape_last, "{judged:?}");
    }
}

#[test]
fn after_a_step_of_five_times_ranges_hold_again_within_two_hours() {
    let mut values = days(6, 2);
    let step = 4 * DAY;
    values[step..].iter_mut().for_each(|value| *value *= 5.0);
    let judged = judged(&values, 1, step + 12);
    // Nine in ten of what comes from two hours after it on.
    assert!((0.86..=0.95).contains(&judged.covered[4]), "{judged:?}");
    let readings: Vec<Option<f64>> = known(values[..step + 12].iter().copied());
    let forecast = after(&readings, 1);
    assert!(
        (forecast.point / values[step + 12] - 1.0).abs() < 0.4,
        "{forecast:?}"
    );
}

#[test]
fn an_outage_is_not_learned_and_not_divided_by() {
    let mut values = known(days(8, 3));
    let (from, length) = (6 * DAY + 40, 20);
    let before = after(&values[..from], 1);
    values[from..from + length].fill(Some(0.0));
    let mut forecaster = Forecaster::new(settings(&[1]));
    tell(&mut forecaster, &values[..from + length]);
    assert!(forecaster.is_outage());
    let within = forecaster.forecasts()[0];
    assert!(near(within.point, 0.0), "{within:?}");
    // What it was may be back with the next reading.
    assert!(within.at(0.95) > 0.5 * before.point, "{within:?}");
    tell(&mut forecaster, &values[from + length..]);
    let end = forecaster.forecasts()[0];
    assert!(!forecaster.is_outage());
    assert!(
        end.quantiles
            .iter()
            .all(|value| value.is_finite() && *value < 400.0),
        "{end:?}"
    );
    // A day later it knows that time of day as if nothing had been.
    let never = after(&known(days(8, 3)), 1);
    assert!(
        (end.point - never.point).abs() < 0.15 * never.point,
        "{end:?} {never:?}"
    );
}

#[test]
fn demand_that_fades_or_is_often_nothing_is_no_outage() {
    let fades = (0..200).map(|at| 100.0 * f64::max(0.0, 1.0 - f64::from(at) / 100.0));
    let mut forecaster = Forecaster::new(settings(&[1]));
    fades.for_each(|value| forecaster.observe(Some(value)));
    assert!(!forecaster.is_outage());
    let mut sparse = Forecaster::new(settings(&[1]));
    (0..200).for_each(|at| sparse.observe(Some(f64::from(u8::from(at % 5 == 0)) * 3.0)));
    assert!(!sparse.is_outage());
}

#[test]
fn what_stays_away_is_believed() {
    let mut forecaster = Forecaster::new(settings(&[1]));
    tell(&mut forecaster, &known(days(3, 4)));
    (0..60).for_each(|_| forecaster.observe(Some(0.0)));
    assert!(!forecaster.is_outage());
    let gone = forecaster.forecasts()[0];
    assert!(gone.point < 5.0, "{gone:?}");
}

#[test]
fn the_largest_client_leaves_and_a_flash_crowd_passes() {
    let mut values = days(6, 5);
    let leaves = 4 * DAY;
    values[leaves..].iter_mut().for_each(|value| *value *= 0.4);
    let left = judged(&values, 1, leaves + 12);
    assert!((0.86..=0.96).contains(&left.covered[4]), "{left:?}");
    // One reading of eight times as much: a day later nothing of it is left.
    let mut values = days(6, 5);
    values[4 * DAY] *= 8.0;
    let crowd = after(&known(values.iter().copied()), 1);
    let never = after(&known(days(6, 5)), 1);
    assert!(
        (crowd.point / never.point - 1.0).abs() < 0.1,
        "{crowd:?} {never:?}"
    );
    let swing = after(&known(values[..=4 * DAY + 3].iter().copied()), 1);
    assert!(swing.point < 2.0 * values[4 * DAY + 3], "{swing:?}");
}

#[test]
fn a_pattern_that_shifts_by_an_hour_is_no_disaster() {
    let usual = days(8, 6);
    let mut shifted = usual[..5 * DAY].to_vec();
    shifted.extend_from_slice(&usual[5 * DAY + 6..]);
    let judged = judged(&shifted, 3, 5 * DAY);
    assert!(judged.wape <= judged.wape_last * 1.02, "{judged:?}");
    assert!((0.85..=0.95).contains(&judged.covered[4]), "{judged:?}");
}

#[test]
fn what_says_nothing_is_counted_and_held() {
    let mut values = known(days(3, 7));
    let before = after(&values, 1);
    values.extend([None, Some(f64::NAN), Some(-3.0), Some(f64::INFINITY)]);
    let mut forecaster = Forecaster::new(settings(&[1]));
    tell(&mut forecaster, &values);
    assert_eq!(forecaster.readings(), (3 * DAY as u64 + 4, 4));
    let held = forecaster.forecasts()[0];
    assert!(
        (held.point / before.point - 1.0).abs() < 0.5,
        "{held:?} {before:?}"
    );
}

#[test]
fn written_down_and_read_back_it_goes_on_as_it_would_have() {
    let values = known(days(4, 8));
    let (first, rest) = values.split_at(3 * DAY + 17);
    let mut forecaster = Forecaster::new(settings(&[1, 3]));
    tell(&mut forecaster, first);
    let text = serde_json::to_string(&forecaster).expect("a document");
    let mut again: Forecaster = serde_json::from_str(&text).expect("reads back");
    assert_eq!(serde_json::to_string(&again).expect("a document"), text);
    for reading in rest {
        forecaster.observe(*reading);
        again.observe(*reading);
    }
    assert_eq!(again.forecasts(), forecaster.forecasts());
}

proptest! {
    #[test]
    fn quantiles_rise_and_nothing_is_below_nothing(
        values in prop::collection::vec(prop::option::of(0.0..1e6_f64), 1..400),
        horizon in 1_u32..6,
    ) {
        let mut forecaster = Forecaster::new(settings(&[horizon]));
        for reading in &values {
            forecaster.observe(*reading);
            for one in forecaster.forecasts() {
                prop_assert!(one.point.is_finite() && one.point >= 0.0);
                for list in [&one.quantiles, &one.highest] {
                    prop_assert!(list.iter().all(|value| value.is_finite() && *value >= 0.0));
                    prop_assert!(list.is_sorted());
                }
                prop_assert!(one.highest.iter().zip(&one.quantiles).all(|(most, then)| most >= then));
                prop_assert!((one.weights.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn scaled_demand_is_forecast_scaled(seed in 0_u64..50, factor in 0.01..100.0_f64) {
        let values = days(3, seed);
        let plain = after(&known(values.iter().copied()), 2);
        let scaled = after(&known(values.iter().map(|value| value * factor)), 2);
        prop_assert!((scaled.point / plain.point / factor - 1.0).abs() < 1e-6);
        prop_assert!((scaled.at(0.9) / plain.at(0.9) / factor - 1.0).abs() < 1e-6);
    }
}

/// A client that comes for twelve hours of each day, and one that rises and falls by itself.
fn of_clients(at: usize) -> [(&'static str, f64); 2] {
    let job = if at % 144 < 72 { 300.0 } else { 0.0 };
    let step = (at * 7919) % 97;
    [("job", job), ("people", 100.0 + step as f64)]
}

#[test]
fn clients_apart_are_one_more_word() {
    let mut one = ByClient::new(settings(&[1]));
    let mut whole = Forecaster::new(settings(&[1]));
    let (mut with, mut without) = (0.0, 0.0);
    let mut said: Option<(f64, f64)> = None;
    for at in 0..10 * 144 {
        let of = of_clients(at);
        let came: f64 = of.iter().map(|(_, value)| value).sum();
        if let Some((a, b)) = said.filter(|_| at > 5 * 144) {
            with += f64::abs(a - came);
            without += f64::abs(b - came);
        }
        one.observe(Some(came), of);
        whole.observe(Some(came));
        said = Some((one.forecasts()[0].point, whole.forecasts()[0].point));
    }
    assert_eq!(one.apart().collect::<Vec<_>>(), ["job", "people"]);
    assert!(with < 0.97 * without, "{with} {without}");
    // It is a document, and goes on to the same answers.
    let text = serde_json::to_string(&one).expect("a document");
    let mut again: ByClient = serde_json::from_str(&text).expect("a document");
    for at in 0..300 {
        let came = of_clients(at).iter().map(|(_, value)| value).sum();
        one.observe(Some(came), of_clients(at));
        again.observe(Some(came), of_clients(at));
    }
    assert_eq!(one.forecasts(), again.forecasts());
}

#[test]
fn who_is_not_told_apart_changes_nothing() {
    let mut one = ByClient::new(settings(&[1, 3]));
    let mut whole = Forecaster::new(settings(&[1, 3]));
    for at in 0..1000_usize {
        let reading = (at % 50 != 7).then_some(100.0 + (at % 13) as f64);
        one.observe(reading, []);
        whole.observe(reading);
    }
    assert_eq!(one.forecasts(), whole.forecasts());
    // A thousand clients that come and go are kept within bounds.
    for at in 0..1000_usize {
        let name = format!("client {at}");
        one.observe(Some(100.0), [(name.as_str(), 60.0)]);
    }
    assert!(one.apart().count() <= APART);
    assert!(serde_json::to_string(&one).expect("a document").len() < 3_000_000);
}
