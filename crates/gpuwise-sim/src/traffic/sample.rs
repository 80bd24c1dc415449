//! Draws from laws of chance, by elementary functions that are equal on every platform.
//!
//! Laws with a closed quantile function take one draw of the stream each; the gamma law and Zipf's
//! reject some draws.

use gpuwise_domain::client::GapLaw;
use gpuwise_units::RandomStream;

/// Gaps longer than so many mean ones are cut: no law that is used has them but once in a billion.
const LONGEST_GAP: f64 = 1e6;

/// A uniform draw in (0, 1).
pub fn open_uniform(stream: &mut RandomStream) -> f64 {
    // Halfway between two steps: neither end is drawn.
    ((stream.next_u64() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
}

/// The exponential law with mean 1.
pub fn exponential(stream: &mut RandomStream) -> f64 {
    -libm::log(open_uniform(stream))
}

/// The normal law with mean 0 and variance 1.
pub fn normal(stream: &mut RandomStream) -> f64 {
    normal_quantile(open_uniform(stream))
}

/// The gamma law with mean 1 and this shape, by Marsaglia's and Tsang's method.
pub fn gamma(stream: &mut RandomStream, shape: f64) -> f64 {
    if shape < 1.0 {
        // A draw at the next shape, times a power of a uniform one.
        let boost = libm::pow(open_uniform(stream), 1.0 / shape);
        return gamma(stream, shape + 1.0) * (shape + 1.0) / shape * boost;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / libm::sqrt(9.0 * d);
    loop {
        let x = normal(stream);
        let cube = 1.0 + c * x;
        if cube <= 0.0 {
            continue;
        }
        let v = cube * cube * cube;
        if libm::log(open_uniform(stream)) < 0.5 * x * x + d * (1.0 - v + libm::log(v)) {
            return d * v / shape;
        }
    }
}

/// The Weibull law with mean 1 and this shape.
pub fn weibull(stream: &mut RandomStream, shape: f64) -> f64 {
    libm::pow(exponential(stream), 1.0 / shape) / libm::tgamma(1.0 + 1.0 / shape)
}

/// The log-normal law with mean 1; `sigma` is the standard deviation of the logarithm.
pub fn log_normal(stream: &mut RandomStream, sigma: f64) -> f64 {
    libm::exp(sigma * normal(stream) - sigma * sigma / 2.0)
}

/// A gap between requests at a rate of 1.
pub fn gap(stream: &mut RandomStream, law: GapLaw) -> f64 {
    let gap = match law {
        GapLaw::Constant => 1.0,
        GapLaw::Exponential => exponential(stream),
        GapLaw::Gamma { shape } => gamma(stream, shape),
        GapLaw::Weibull { shape } => weibull(stream, shape),
        GapLaw::LogNormal { sigma } => log_normal(stream, sigma),
    };
    gap.min(LONGEST_GAP)
}

/// The time from any moment to the next request at a rate of 1, where gaps follow this law: a share of
/// a gap that is the likelier met, the longer it is. Of equal gaps, a whole one.
pub fn first_gap(stream: &mut RandomStream, law: GapLaw) -> f64 {
    let met = match law {
        GapLaw::Constant => return 1.0,
        GapLaw::Exponential => return gap(stream, law),
        GapLaw::Gamma { shape } => gamma(stream, shape + 1.0) * (shape + 1.0) / shape,
        GapLaw::Weibull { shape } => {
            let power = 1.0 + 1.0 / shape;
            libm::pow(gamma(stream, power) * power, 1.0 / shape) / libm::tgamma(power)
        }
        GapLaw::LogNormal { sigma } => libm::exp(sigma * normal(stream) + sigma * sigma / 2.0),
    };
    met.min(LONGEST_GAP) * open_uniform(stream)
}

/// Zipf's law: 0 is drawn most, `k` with weight (k+1)^-exponent. By rejection from the integral of the
/// weights (Hörmann and Derflinger), so that no table is kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Zipf {
    count: f64,
    exponent: f64,
    /// The integral at its ends.
    first: f64,
    last: f64,
    /// Below this distance from a whole number nothing is rejected.
    sure: f64,
}

impl Zipf {
    /// Over `count` numbers from 0, at least one.
    pub fn new(count: u64, exponent: f64) -> Self {
        let count = count.max(1) as f64;
        let mut law = Self {
            count,
            exponent: exponent.max(0.0),
            first: 0.0,
            last: 0.0,
            sure: 0.0,
        };
        law.first = law.integral(1.5) - 1.0;
        law.last = law.integral(count + 0.5);
        law.sure = 2.0 - law.inverse(law.integral(2.5) - law.weight(2.0));
        law
    }

    fn weight(&self, x: f64) -> f64 {
        libm::exp(-self.exponent * libm::log(x))
    }

    /// ∫ x^-exponent, from 1.
    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        let power = 1.0 - self.exponent;
        if (power * log).abs() < 1e-8 {
            log * (1.0 + power * log / 2.0)
        } else {
            libm::expm1(power * log) / power
        }
    }

    fn inverse(&self, area: f64) -> f64 {
        let power = 1.0 - self.exponent;
        let scaled = (power * area).max(-1.0);
        if scaled.abs() < 1e-8 {
            libm::exp(area * (1.0 - scaled / 2.0))
        } else {
            libm::exp(libm::log1p(scaled) / power)
        }
    }

    /// A draw in 0..count.
    pub fn draw(&self, stream: &mut RandomStream) -> u64 {
        loop {
            let area = self.last + open_uniform(stream) * (self.first - self.last);
            let x = self.inverse(area);
            let k = libm::round(x).clamp(1.0, self.count);
            if k - x <= self.sure || area >= self.integral(k + 0.5) - self.weight(k) {
                return k as u64 - 1;
            }
        }
    }
}

/// The number below which a normal draw lies with this probability; Wichura's rational functions
/// (AS 241), good to 16 digits.
pub fn normal_quantile(probability: f64) -> f64 {
    let q = probability - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return q * ratio(r, &CENTRE);
    }
    let tail = if q < 0.0 {
        probability
    } else {
        1.0 - probability
    };
    let r = libm::sqrt(-libm::log(tail.max(f64::MIN_POSITIVE)));
    let far = if r <= 5.0 {
        ratio(r - 1.6, &MIDDLE)
    } else {
        ratio(r - 5.0, &FAR)
    };
    if q < 0.0 { -far } else { far }
}

/// Probability that a normal draw lies below.
pub fn normal_below(x: f64) -> f64 {
    0.5 * libm::erfc(-x / std::f64::consts::SQRT_2)
}

/// Two polynomials, from the highest power.
type Ratio = ([f64; 8], [f64; 8]);

fn ratio(x: f64, (above, below): &Ratio) -> f64 {
    let sum = |terms: &[f64; 8]| terms.iter().fold(0.0, |sum, term| sum * x + term);
    sum(above) / sum(below)
}

const CENTRE: Ratio = (
    [
        2.509_080_928_730_122_7e3,
        3.343_057_558_358_813e4,
        6.726_577_092_700_87e4,
        4.592_195_393_154_987e4,
        1.373_169_376_550_946e4,
        1.971_590_950_306_551_3e3,
        1.331_416_678_917_843_8e2,
        3.387_132_872_796_366_5,
    ],
    [
        5.226_495_278_852_545e3,
        2.872_908_573_572_194_3e4,
        3.930_789_580_009_271e4,
        2.121_379_430_158_659_7e4,
        5.394_196_021_424_751e3,
        6.871_870_074_920_579e2,
        4.231_333_070_160_091e1,
        1.0,
    ],
);

const MIDDLE: Ratio = (
    [
        7.745_450_142_783_414e-4,
        2.272_384_498_926_918_4e-2,
        2.417_807_251_774_506e-1,
        1.270_458_252_452_368_4,
        3.647_848_324_763_204_5,
        5.769_497_221_460_691,
        4.630_337_846_156_546,
        1.423_437_110_749_683_5,
    ],
    [
        1.050_750_071_644_416_9e-9,
        5.475_938_084_995_345e-4,
        1.519_866_656_361_645_7e-2,
        1.481_039_764_274_800_8e-1,
        6.897_673_349_851e-1,
        1.676_384_830_183_803_8,
        2.053_191_626_637_759,
        1.0,
    ],
);

const FAR: Ratio = (
    [
        2.010_334_399_292_288_1e-7,
        2.711_555_568_743_487_6e-5,
        1.242_660_947_388_078_4e-3,
        2.653_218_952_657_612_4e-2,
        2.965_605_718_285_048_7e-1,
        1.784_826_539_917_291_3,
        5.463_784_911_164_114,
        6.657_904_643_501_103,
    ],
    [
        2.044_263_103_389_939_8e-15,
        1.421_511_758_316_446e-7,
        1.846_318_317_510_054_8e-5,
        7.868_691_311_456_133e-4,
        1.487_536_129_085_061_5e-2,
        1.369_298_809_227_358e-1,
        5.998_322_065_558_88e-1,
        1.0,
    ],
);
