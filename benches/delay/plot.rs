//! The result of a run, as pictures: SVG, that a page of the docs can show.

use std::fmt::Display;

use anyhow::anyhow;
use plotters::prelude::*;

use crate::figure::{bytes, count, median};
use crate::job::{Arrivals, Outcome, Quantiles};
use crate::report::{Contest, Rates, Report, Series};
use crate::side::{Broker, Side};

/// A picture, and what distinguishes its file from others of the run.
pub(crate) struct Plot {
    pub name: String,
    pub svg: String,
}

const WIDTH: u32 = 760;
const TEXT: (&str, u32) = ("sans-serif", 14);
const TITLE: (&str, u32) = ("sans-serif", 17);
const BLUE: RGBColor = RGBColor(0x2f, 0x6f, 0xb5);
const GREY: RGBColor = RGBColor(0x8a, 0x91, 0x99);
const COLOURS: [RGBColor; 6] = [
    GREY,
    BLUE,
    RGBColor(0xd9, 0x7a, 0x1f),
    RGBColor(0x3a, 0x8f, 0x4d),
    RGBColor(0xa5, 0x3d, 0x8c),
    RGBColor(0x6b, 0x5b, 0x3e),
];

/// All pictures of a run.
pub(crate) fn plots(report: &Report) -> anyhow::Result<Vec<Plot>> {
    let broker = report.options.broker;
    let mut plots = Vec::new();
    for contest in &report.contests {
        let name = format!("{}-{}", contest.name.replace(' ', "-"), contest.body_bytes);
        plots.push(Plot { name, svg: bars(contest, broker)? });
    }
    for rates in &report.rates {
        let name = format!("{}-{}", rates.name, rates.body_bytes);
        plots.push(Plot { name: format!("{name}-overshoot"), svg: quantiles(rates, broker)? });
    }
    Ok(plots)
}

/// A bar for each side: the median of its rounds, and a line from the least to the most.
fn bars(contest: &Contest, broker: Broker) -> anyhow::Result<String> {
    const ROW: i32 = 34;
    const TOP: i32 = 46;
    const LEFT: i32 = 230;
    const RIGHT: i32 = 110;
    let rows = i32::try_from(contest.series.len())?;
    let most = contest.series.iter().flat_map(|series| &series.outcomes).map(Outcome::rate).max();
    let most = most.unwrap_or(0).max(1) as f64;
    let room = f64::from(WIDTH.cast_signed() - LEFT - RIGHT);
    let x = |rate: u64| LEFT + (rate as f64 / most * room) as i32;

    let mut svg = String::new();
    let height = (TOP + rows * ROW + 14).cast_unsigned();
    let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
    area.fill(&WHITE).map_err(drawn)?;
    let body = bytes(contest.body_bytes as u64);
    let title = format!("{}: messages of {body} per second", capital(contest.name));
    area.draw(&Text::new(title, (12, 12), TITLE)).map_err(drawn)?;
    for (row, series) in (0..).zip(&contest.series) {
        let (top, middle) = (TOP + row * ROW, TOP + row * ROW + ROW / 2 - 4);
        let colour = if matches!(series.side, Side::Xdelay(_)) { BLUE } else { GREY };
        let rates = || series.outcomes.iter().map(Outcome::rate);
        let (least, most) = (rates().min().unwrap_or(0), rates().max().unwrap_or(0));
        let bar = [(LEFT, top), (x(series.median_rate()), top + ROW - 10)];
        area.draw(&Text::new(series.side.name(broker), (12, top + 5), TEXT)).map_err(drawn)?;
        area.draw(&Rectangle::new(bar, colour.filled())).map_err(drawn)?;
        let spread = vec![(x(least), middle), (x(most), middle)];
        area.draw(&PathElement::new(spread, BLACK.stroke_width(2))).map_err(drawn)?;
        let rate = format!("{}/s", count(series.median_rate()));
        area.draw(&Text::new(rate, (x(most) + 8, top + 5), TEXT)).map_err(drawn)?;
    }
    area.present().map_err(drawn)?;
    drop(area);
    Ok(svg)
}

/// A line for each side and rate: how far beyond what was asked for, from p50 to the latest of all.
fn quantiles(rates: &Rates, broker: Broker) -> anyhow::Result<String> {
    const NAMES: [&str; 5] = ["p50", "p90", "p99", "p99.9", "max"];
    let lines: Vec<(String, [f64; 5])> =
        rates.series.iter().map(|series| (label(series, broker), milliseconds(series))).collect();
    let values = || lines.iter().flat_map(|(_, line)| line.iter().copied());
    let least = values().fold(f64::INFINITY, f64::min).clamp(0.05, 1.0);
    let most = values().fold(10.0, f64::max) * 1.5;

    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (WIDTH, 420)).into_drawing_area();
    area.fill(&WHITE).map_err(drawn)?;
    let title = format!("{}: overshoot in milliseconds", capital(rates.name));
    let mut chart = ChartBuilder::on(&area)
        .caption(title, TITLE)
        .margin(12)
        .x_label_area_size(30)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..4.0, (least..most).log_scale())
        .map_err(drawn)?;
    let name = |x: &f64| NAMES.get(x.round() as usize).copied().unwrap_or_default().to_owned();
    chart
        .configure_mesh()
        .x_labels(5)
        .x_label_formatter(&name)
        .label_style(TEXT)
        .light_line_style(WHITE)
        .draw()
        .map_err(drawn)?;
    for ((name, line), colour) in lines.into_iter().zip(COLOURS.into_iter().cycle()) {
        let points: Vec<(f64, f64)> =
            line.iter().enumerate().map(|(at, ms)| (at as f64, ms.max(least))).collect();
        let line = PathElement::new(points, colour.stroke_width(2));
        let drawn_line = chart.draw_series([line]).map_err(drawn)?;
        drawn_line.label(name).legend(move |(x, y)| {
            PathElement::new(vec![(x, y), (x + 18, y)], colour.stroke_width(3))
        });
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.8))
        .label_font(TEXT)
        .draw()
        .map_err(drawn)?;
    area.present().map_err(drawn)?;
    drop(chart);
    drop(area);
    Ok(svg)
}

fn label(series: &Series, broker: Broker) -> String {
    let rate = series.rate.unwrap_or(0);
    format!("{}, {}/s", series.side.name(broker), count(rate))
}

/// Of each quantile, the median of the rounds.
fn milliseconds(series: &Series) -> [f64; 5] {
    let parts: [fn(&Quantiles) -> u64; 5] =
        [|of| of.p50, |of| of.p90, |of| of.p99, |of| of.p999, |of| of.max];
    parts.map(|part| {
        let of = |arrived: &Arrivals| part(&arrived.overshoot);
        median(series.arrivals().map(of)) as f64 / 1e3
    })
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

/// What plotters cannot draw, which borrows from the picture, in words.
fn drawn(error: impl Display) -> anyhow::Error {
    anyhow!("drawing: {error}")
}
