//! Dashes of a line that goes round corners.

/// The dashes of a line.
pub(super) fn dashes(places: &[(f64, f64)], dash: f64, gap: f64) -> Vec<Vec<(f64, f64)>> {
    let mut parts: Vec<Vec<(f64, f64)>> = Vec::new();
    let (mut drawing, mut left) = (true, dash);
    let Some(&first) = places.first() else { return parts };
    let mut part = vec![first];
    for pair in places.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let length = (to.0 - from.0).hypot(to.1 - from.1);
        let mut done = 0.0;
        while length - done > left {
            done += left;
            let at = (from.0 + (to.0 - from.0) * done / length, from.1 + (to.1 - from.1) * done / length);
            if drawing {
                part.push(at);
                parts.push(std::mem::take(&mut part));
            } else {
                part = vec![at];
            }
            drawing = !drawing;
            left = if drawing { dash } else { gap };
        }
        left -= length - done;
        if drawing {
            part.push(to);
        }
    }
    if part.len() > 1 {
        parts.push(part);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dashed_line_is_cut_at_its_corners_too() {
        let parts = dashes(&[(0.0, 0.0), (10.0, 0.0), (10.0, 10.0)], 6.0, 2.0);
        assert_eq!(
            parts,
            [vec![(0.0, 0.0), (6.0, 0.0)], vec![(8.0, 0.0), (10.0, 0.0), (10.0, 4.0)], vec![(10.0, 6.0), (10.0, 10.0)]]
        );
    }
}
