//! Time stamps of findings: how far apart two events are, and which was first.
//!
//! Two stamps are compared only where they are written in one style, since then one sort of logger wrote both and they
//! mean the same zone. Stamps without a year are taken to be less than half a year apart; those without a date say nothing
//! beyond an hour, since a run may last for days.

use std::sync::LazyLock;

use regex::Regex;

use super::finding::Finding;

/// Clocks of the hosts of one cluster agree to about this many seconds.
const HOST_SKEW: f64 = 1.0;

const HOUR: f64 = 3600.0;
const DAY: f64 = 86_400.0;
/// Days before each month of a leap year, so that each date of any year has its place.
const DAYS_BEFORE: [u16; 12] = [0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

struct Forms {
    date: Regex,
    clock: Regex,
    month: Regex,
    uptime: Regex,
}

static FORMS: LazyLock<Option<Forms>> = LazyLock::new(|| {
    Some(Forms {
        // 2024-11-29 10:12:00,123   1129 10:12:00.123456   11-29 10:12:00
        date: Regex::new(r"^(?:(?P<year>\d{4})[-/])?(?P<month>\d\d?)[-/]?(?P<day>\d\d)[T _](?P<clock>\d\d:\d\d:\d\d)").ok()?,
        clock: Regex::new(r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d(?:[.,]\d{1,9})?)").ok()?,
        // Nov 29 10:12:00   Fri Nov 29 10:12:00 2024
        month: Regex::new(r"(?P<month>[A-Z][a-z]{2}) +(?P<day>\d\d?) (?P<clock>\d\d:\d\d:\d\d)(?: (?P<year>\d{4}))?$").ok()?,
        // seconds since the kernel started
        uptime: Regex::new(r"^\d+\.\d+$").ok()?,
    })
});

/// Does a stamp count the seconds since the kernel started, as those of `dmesg` do?
pub fn is_uptime(stamp: &str) -> bool {
    FORMS.as_ref().is_some_and(|forms| forms.uptime.is_match(stamp))
}

/// A time stamp as seconds, and after how many of them it would read the same again.
fn seconds(stamp: &str) -> Option<(f64, Option<f64>)> {
    let forms = FORMS.as_ref()?;
    if is_uptime(stamp) {
        return Some((stamp.parse().ok()?, None));
    }
    let clock = forms.clock.captures(stamp)?;
    let part = |name: &str| clock[name].replace(',', ".").parse::<f64>().ok();
    let of_day = part("hour")? * 3600.0 + part("minute")? * 60.0 + part("second")?;
    let Some(date) = forms.date.captures(stamp).or_else(|| forms.month.captures(stamp)) else {
        return Some((of_day, Some(DAY)));
    };
    let month = MONTHS.iter().position(|month| *month == &date["month"]).or_else(|| date["month"].parse::<usize>().ok()?.checked_sub(1))?;
    let day = f64::from(*DAYS_BEFORE.get(month)?) + date["day"].parse::<f64>().ok()?;
    let year = date.name("year").and_then(|year| year.as_str().parse::<f64>().ok());
    let of_year = day * DAY + of_day;
    Some(year.map_or((of_year, Some(366.0 * DAY)), |year| (year * 366.0 * DAY + of_year, None)))
}

/// Are two stamps written in one style? The digits of a number may differ in count.
fn is_one_style(a: &str, b: &str) -> bool {
    let shape = |stamp: &str| -> Vec<char> {
        let sort = |c: char| if c.is_ascii_digit() { '0' } else { c };
        let letters_are_alike = |c: char| if c.is_ascii_alphabetic() && !matches!(c, 'T' | 'Z') { 'a' } else { c };
        let mut out: Vec<char> = stamp.chars().map(sort).map(letters_are_alike).collect();
        out.dedup_by(|a, b| a == b && matches!(a, '0' | ' '));
        out
    };
    shape(a) == shape(b)
}

/// Seconds from the one stamp to the other; `None` where they cannot be compared.
pub fn between(one: &str, other: &str) -> Option<f64> {
    if !is_one_style(one, other) {
        return None;
    }
    let ((a, period), (b, _)) = (seconds(one)?, seconds(other)?);
    let gap = match (b - a, period) {
        (gap, Some(period)) if gap > period / 2.0 => gap - period,
        (gap, Some(period)) if gap < -period / 2.0 => gap + period,
        (gap, _) => gap,
    };
    (period != Some(DAY) || gap.abs() <= HOUR).then_some(gap)
}

/// Do the time stamps say that the one was written before the other?
///
/// Of one rank on one host the order of the lines tells, and of two hosts only a difference beyond the skew of their clocks.
pub fn is_earlier(one: &Finding, other: &Finding) -> bool {
    let (Some(a), Some(b)) = (&one.time, &other.time) else { return false };
    if one.rank.is_some() && one.rank == other.rank && one.host == other.host {
        return false;
    }
    let skew = if one.host == other.host { 0.0 } else { HOST_SKEW };
    between(a, b).is_some_and(|gap| gap > skew)
}

/// Were both written within so many seconds on one host, as far as both say?
pub fn is_near(one: &Finding, other: &Finding, within: f64) -> bool {
    let one_host = one.host.is_none() || other.host.is_none() || one.host == other.host;
    let gap = one.time.as_ref().zip(other.time.as_ref()).and_then(|(a, b)| between(a, b));
    one_host && gap.is_some_and(|gap| gap.abs() <= within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_of_one_style_are_compared() {
        for (a, b, gap) in [
            ("2024-11-29 10:12:00,500", "2024-11-29 10:12:02,000", 1.5),
            ("2024-12-31T23:59:59Z", "2025-01-01T00:00:01Z", 2.0),
            ("1129 10:41:12.123406789", "1129 10:41:13.123406789", 1.0),
            ("Nov 29 23:59:30", "Nov 30 00:00:10", 40.0),
            ("Nov  9 10:00:00", "Nov 10 10:00:00", 86_400.0),
            ("Dec 31 23:59:59", "Jan  1 00:00:01", 2.0),
            ("Fri Nov 29 10:30:58 2024", "Sat Nov 30 10:30:58 2024", 86_400.0),
            ("23:59:59", "00:00:01", 2.0),
            ("10:00:10", "10:00:00", -10.0),
            ("09-10 12:22:13", "09-10 12:22:14", 1.0),
            ("999.500000", "1000.500000", 1.0),
        ] {
            let found = between(a, b).unwrap();
            assert!((found - gap).abs() < 1e-3, "{a} {b}: {found}");
        }
        for (a, b) in [
            ("2024-11-29 10:12:00", "Nov 29 10:12:00"),
            ("2024-11-29T10:12:00Z", "2024-11-29T10:12:00+01:00"),
            ("10:12:00", "2024-11-29 10:12:00"),
            ("999.500000", "10:12:00"),
            ("01:00:00", "14:00:00"),
            ("soon", "late"),
        ] {
            assert_eq!(between(a, b), None, "{a} {b}");
        }
    }
}
