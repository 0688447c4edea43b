//! Bars, as SVG. On a scale of powers of ten: what is compared differs by orders of magnitude.

use crate::report::short;
use std::fmt::Write;

pub(super) struct Bar {
    pub(super) label: String,
    /// The owner: the same colour for the same.
    pub(super) of: String,
    pub(super) value: f64,
}

const WIDTH: f64 = 860.0;
const LEFT: f64 = 250.0;
const RIGHT: f64 = 90.0;
const HEIGHT: f64 = 18.0;
const COLOURS: [&str; 4] = ["#2f6fdb", "#e07b39", "#9aa0a6", "#6b8e4e"];

/// Bars of the same label stand together, in the order in which they came.
pub(super) fn bars(title: &str, unit: &str, bars: &[Bar]) -> String {
    let mut labels: Vec<&str> = Vec::new();
    let mut owners: Vec<&str> = Vec::new();
    for bar in bars {
        if !labels.contains(&bar.label.as_str()) {
            labels.push(&bar.label);
        }
        if !owners.contains(&bar.of.as_str()) {
            owners.push(&bar.of);
        }
    }
    let values = || bars.iter().map(|bar| bar.value).filter(|value| *value > 0.0);
    let low = values().fold(f64::INFINITY, f64::min).log10().floor();
    let high = values().fold(0.0, f64::max).log10().ceil().max(low + 1.0);
    let scale = (WIDTH - LEFT - RIGHT) / (high - low);
    let mut drawn = String::new();
    let mut y = 44.0;
    for (index, owner) in owners.iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "a handful")]
        let x = LEFT + 130.0 * index as f64;
        let colour = COLOURS[index % COLOURS.len()];
        let _ = write!(drawn, r#"<rect x="{x}" y="28" width="10" height="10" fill="{colour}"/>"#);
        let _ = write!(drawn, r#"<text x="{}" y="37">{}</text>"#, x + 15.0, escaped(owner));
    }
    for label in labels {
        let group: Vec<&Bar> = bars.iter().filter(|bar| bar.label == label).collect();
        let _ =
            write!(drawn, r#"<text x="{}" y="{}" text-anchor="end">{}</text>"#, LEFT - 8.0, y + 13.0, escaped(label));
        for bar in group {
            let owner = owners.iter().position(|owner| *owner == bar.of).unwrap_or(0);
            let width = if bar.value > 0.0 { ((bar.value.log10() - low) * scale).max(1.0) } else { 0.0 };
            let colour = COLOURS[owner % COLOURS.len()];
            let inner = HEIGHT - 3.0;
            let _ = write!(drawn, r#"<rect x="{LEFT}" y="{y}" width="{width:.1}" height="{inner}" fill="{colour}"/>"#);
            let (x, baseline, value) = (LEFT + width + 5.0, y + 12.0, short(bar.value));
            let _ = write!(drawn, r#"<text x="{x:.1}" y="{baseline}">{value} {unit}</text>"#);
            y += HEIGHT;
        }
        y += 8.0;
    }
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/><text x="8" y="18" font-size="15">{} (logarithmic)</text>{drawn}</svg>
"#,
        escaped(title)
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_bars_are_larger_and_nothing_leaves_the_picture() {
        let bar = |label: &str, value| Bar { label: label.to_owned(), of: label.to_owned(), value };
        let picture = bars("a < b", "/s", &[bar("one", 1.0), bar("none", 0.0), bar("many", 12_345.0)]);
        let rects = picture
            .split("<rect ")
            .skip(1)
            .filter(|rect| rect.contains(&format!(r#"x="{LEFT}" y"#)) && rect.contains(r#"height="15""#));
        let widths: Vec<f64> =
            rects.filter_map(|rect| rect.split(r#"width=""#).nth(1)?.split('"').next()?.parse().ok()).collect();
        assert_eq!(widths.len(), 3, "{picture}");
        assert!(widths[1] < widths[0] && widths[0] < widths[2] && widths[2] <= WIDTH - LEFT - RIGHT);
        assert!(picture.contains("a &lt; b"));
    }
}
