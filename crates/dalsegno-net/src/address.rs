//! Which addresses belong to the public network.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address does not belong to the public network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AddressKind {
    /// This machine itself.
    Loopback,
    /// A private network: 10/8, 172.16/12, 192.168/16, fc00::/7.
    Private,
    /// The local link, where clouds keep their metadata services: 169.254/16, fe80::/10.
    LinkLocal,
    /// A metadata or host service of a cloud at an address that looks public.
    Metadata,
    /// Shared by the customers of a provider: 100.64/10.
    Shared,
    /// Many receivers at once: 224/4, ff00::/8, and broadcast.
    Multicast,
    /// No address: 0/8, `::`.
    Unspecified,
    /// Reserved, for documentation, or for tests of networks.
    Reserved,
    /// An IPv4 address dressed as an IPv6 one, such as `::ffff:127.0.0.1`.
    Embedded,
}

impl AddressKind {
    /// The kind of an address; `None` for one of the public network.
    pub fn of(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V4(address) => v4(address),
            IpAddr::V6(address) => v6(address),
        }
    }
}

impl fmt::Display for AddressKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Loopback => "this machine itself",
            Self::Private => "an address of a private network",
            Self::LinkLocal => "an address of the local link",
            Self::Metadata => "a service of the cloud for its own machines",
            Self::Shared => "an address that customers of a provider share",
            Self::Multicast => "an address of many receivers",
            Self::Unspecified => "no address of anybody",
            Self::Reserved => "a reserved address",
            Self::Embedded => "an IPv4 address dressed as an IPv6 one",
        })
    }
}

fn v4(address: Ipv4Addr) -> Option<AddressKind> {
    let kind = match address.octets() {
        [0, ..] => AddressKind::Unspecified,
        [127, ..] => AddressKind::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => AddressKind::Private,
        [169, 254, ..] => AddressKind::LinkLocal,
        [100, 64..=127, ..] => AddressKind::Shared,
        // The host of every machine at Azure.
        [168, 63, 129, 16] => AddressKind::Metadata,
        // Assignments of the IETF, where Oracle keeps metadata; documentation; relays of 6to4; tests of networks.
        [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 18..=19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => {
            AddressKind::Reserved
        }
        [224..=239, ..] | [255, 255, 255, 255] => AddressKind::Multicast,
        [240..=255, ..] => AddressKind::Reserved,
        _ => return None,
    };
    Some(kind)
}

fn v6(address: Ipv6Addr) -> Option<AddressKind> {
    let kind = match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => AddressKind::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressKind::Loopback,
        // Compatible, mapped and translated: whoever means an IPv4 address says so.
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => AddressKind::Embedded,
        // NAT64 is how a network without IPv4 reaches the public one; it carries no other address.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            let inner = Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
            return v4(inner).map(|_| AddressKind::Embedded);
        }
        [0xfc00..=0xfdff, ..] => AddressKind::Private,
        [0xfe80..=0xfebf, ..] => AddressKind::LinkLocal,
        // Site-local addresses, long out of use.
        [0xfec0..=0xfeff, ..] => AddressKind::Private,
        [0xff00..=0xffff, ..] => AddressKind::Multicast,
        // 6to4 and Teredo hold an IPv4 address of anybody's choice.
        [0x2002, ..] | [0x2001, 0, ..] => AddressKind::Embedded,
        // ISATAP, in any prefix.
        [_, _, _, _, 0 | 0x200, 0x5efe, _, _] => AddressKind::Embedded,
        [0x2001, 0x1..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => AddressKind::Reserved,
        [0x2000..=0x3fff, ..] => return None,
        // Nothing else was given out so far.
        _ => AddressKind::Reserved,
    };
    Some(kind)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::AddressKind;

    #[test]
    fn every_kind_of_address_that_is_not_public_is_known() {
        use AddressKind::*;
        let cases = [
            ("127.0.0.1", Loopback),
            ("127.255.0.3", Loopback),
            ("0.0.0.0", Unspecified),
            ("0.1.2.3", Unspecified),
            ("10.0.0.1", Private),
            ("172.16.0.1", Private),
            ("172.31.255.255", Private),
            ("192.168.1.1", Private),
            ("169.254.169.254", LinkLocal),
            ("100.64.0.1", Shared),
            ("100.100.100.200", Shared),
            ("168.63.129.16", Metadata),
            ("192.0.0.192", Reserved),
            ("192.0.2.1", Reserved),
            ("198.18.0.1", Reserved),
            ("203.0.113.9", Reserved),
            ("224.0.0.1", Multicast),
            ("255.255.255.255", Multicast),
            ("240.0.0.1", Reserved),
            ("::", Unspecified),
            ("::1", Loopback),
            ("::127.0.0.1", Embedded),
            ("::ffff:127.0.0.1", Embedded),
            ("::ffff:8.8.8.8", Embedded),
            ("::ffff:0:10.0.0.1", Embedded),
            ("64:ff9b::10.0.0.1", Embedded),
            ("64:ff9b:1::8.8.8.8", Reserved),
            ("2002:7f00:1::", Embedded),
            ("2001:0:53aa:64c:0:0:80ff:fffe", Embedded),
            ("2a00:1450::5efe:10.0.0.1", Embedded),
            ("fd00:ec2::254", Private),
            ("fe80::1", LinkLocal),
            ("fec0::1", Private),
            ("ff02::1", Multicast),
            ("2001:db8::1", Reserved),
            ("100::1", Reserved),
            ("5f00::1", Reserved),
        ];
        for (address, kind) in cases {
            assert_eq!(AddressKind::of(address.parse().unwrap()), Some(kind), "{address}");
        }
    }

    #[test]
    fn public_addresses_have_no_kind() {
        for address in ["8.8.8.8", "100.63.0.1", "172.32.0.1", "2606:4700::1111", "64:ff9b::8.8.8.8"] {
            assert_eq!(AddressKind::of(address.parse().unwrap()), None, "{address}");
        }
    }

    proptest! {
        #[test]
        fn no_ipv4_address_passes_in_disguise(bits: u32) {
            let plain = std::net::Ipv4Addr::from_bits(bits);
            prop_assert!(AddressKind::of(IpAddr::V6(plain.to_ipv6_mapped())).is_some());
            let nat64 = format!("64:ff9b::{plain}").parse().unwrap();
            prop_assert_eq!(AddressKind::of(nat64).is_some(), AddressKind::of(IpAddr::V4(plain)).is_some());
        }

        #[test]
        fn what_the_standard_library_calls_private_is_never_public(bits: u32) {
            let address = std::net::Ipv4Addr::from_bits(bits);
            let private = address.is_private() || address.is_loopback() || address.is_link_local()
                || address.is_multicast() || address.is_broadcast() || address.is_documentation()
                || address.is_unspecified();
            prop_assert!(!private || AddressKind::of(IpAddr::V4(address)).is_some());
        }
    }
}
