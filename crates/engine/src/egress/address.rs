//! Classifies IP addresses as public or not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is publicly routable. An IPv6 address that embeds an IPv4 address is classified by the embedded
/// one.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

/// Whether this is the metadata endpoint of a cloud provider, which exposes credentials of the machine. Requests to
/// it are never allowed, whatever the configuration says.
pub(crate) fn is_metadata(address: IpAddr) -> bool {
    const OF_AWS: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254);
    match address {
        IpAddr::V4(v4) => is_metadata_v4(v4),
        IpAddr::V6(v6) => v6 == OF_AWS || embedded_v4(v6).is_some_and(is_metadata_v4),
    }
}

/// Azure's endpoint has a public address, but only machines in Azure can reach it.
fn is_metadata_v4(address: Ipv4Addr) -> bool {
    const OF_AZURE: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);
    address == OF_AZURE || address.is_link_local()
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = match (a, b, c) {
        // This network, carrier-grade NAT, protocol assignments, 6to4 relay, benchmarking, reserved.
        (0, ..) | (100, 64..=127, _) | (192, 0, 0) | (192, 88, 99) | (198, 18..=19, _) | (240.., ..) => true,
        _ => false,
    };
    !(is_special
        || is_metadata_v4(address)
        || address.is_loopback()
        || address.is_private()
        || address.is_unspecified()
        || address.is_multicast()
        || address.is_documentation()
        || address.is_broadcast())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(v4) = embedded_v4(address) {
        return is_public_v4(v4);
    }
    let [first, second, ..] = address.segments();
    // All allocated addresses are in 2000::/3; the rest is local, reserved or multicast.
    let is_given_out = first & 0xe000 == 0x2000;
    // 2001::/23 is for protocols such as Teredo; 2001:db8::/32 and 3fff::/20 are for documentation.
    let is_special =
        (first == 0x2001 && (second < 0x0200 || second == 0x0db8)) || (first == 0x3fff && second < 0x1000);
    is_given_out && !is_special
}

/// Returns the IPv4 address embedded in a mapped, 6to4 or NAT64 address.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] => v4(high, low),
        [0x2002, high, low, ..] => v4(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_public_addresses_are_detected_in_every_form() {
        for private in [
            "0.0.0.0",
            "0.1.2.3",
            "10.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:168.63.129.16",
            "::127.0.0.1",
            "::1.1.1.1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "3fff::1",
            "2002:a00:1::",
            "2002:7f00:1::",
            "64:ff9b::a00:1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
        for public in [
            "1.1.1.1",
            "100.63.0.1",
            "100.128.0.1",
            "140.82.112.3",
            "168.63.129.15",
            "168.63.129.17",
            "172.32.0.1",
            "2606:4700::1111",
            "2002:101:101::",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for metadata in [
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "fd00:ec2::254",
            "168.63.129.16",
            "::ffff:168.63.129.16",
            "64:ff9b::168.63.129.16",
            "2002:a83f:8110::",
        ] {
            assert!(is_metadata(metadata.parse().unwrap()), "{metadata}");
        }
    }
}
