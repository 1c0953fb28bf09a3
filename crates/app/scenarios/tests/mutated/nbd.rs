//! Clients' sides of NBD: handshakes, and requests with their data.

fn numbers(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

/// A string with its length before it.
fn string(text: &str) -> Vec<u8> {
    [numbers(&[text.len() as u32]), text.as_bytes().to_vec()].concat()
}

fn option(option: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT".to_vec(), numbers(&[option, data.len() as u32]), data.to_vec()].concat()
}

/// Handshakes that come to an export: with all options, by an old client, and by TLS.
pub(crate) fn handshakes() -> Vec<Vec<u8>> {
    let information = [string("disk"), vec![0, 3, 0, 1, 0, 2, 0, 3]].concat();
    let contexts = [string("disk"), numbers(&[2]), string("base:allocation"), string("x-own:all")].concat();
    let listed = [string(""), numbers(&[0])].concat();
    let all = [
        numbers(&[3]),
        option(3, &[]),
        option(8, &[]),
        option(9, &[string("other"), numbers(&[1]), string("base:")].concat()),
        option(9, &listed),
        option(10, &contexts),
        option(6, &information),
        option(11, &[]),
        option(7, &information),
    ];
    let covered = [numbers(&[1]), option(5, &[]), option(8, &[]), option(7, &information)];
    vec![all.concat(), [numbers(&[0]), option(1, b"other")].concat(), covered.concat()]
}

fn request(kind: u16, flags: u16, offset: u64, length: u32) -> Vec<u8> {
    let head = [numbers(&[0x2560_9513]), flags.to_be_bytes().to_vec(), kind.to_be_bytes().to_vec()].concat();
    let place = [&7u64.to_be_bytes()[..], &offset.to_be_bytes()].concat();
    [head, place, numbers(&[length])].concat()
}

/// Requests of each kind.
pub(crate) fn requests() -> Vec<Vec<u8>> {
    let written = [request(1, 1, 4096, 4096), vec![5; 4096]].concat();
    let all = [
        request(0, 4, 0, 4096),
        written.clone(),
        request(3, 0, 0, 0),
        request(4, 0, 0, 8192),
        request(6, 2, 0, 1 << 20),
        request(7, 8, 0, 1 << 30),
        request(2, 0, 0, 0),
    ];
    vec![all.concat(), written, request(7, 0, 4096, 4096)]
}
