import ipaddr from 'ipaddr.js'
import { describe, expect, it } from 'vitest'
import { addressRules, judgeAddress } from './judge-address.ts'

const judge = (address: string, port = 443, privateAllow: string[] = [], own: string[] = []): string | null =>
  judgeAddress(
    ipaddr.parse(address),
    port,
    addressRules(privateAllow, () => own),
  )

describe('judgeAddress', () => {
  it.each([
    '1.1.1.1',
    '8.8.8.8',
    '93.184.216.34',
    '172.15.255.255',
    '172.32.0.0',
    '100.63.255.255',
    '100.128.0.0',
    '169.253.255.255',
    '223.255.255.255',
    '2606:4700:4700::1111',
    '2a00:1450:4001:81b::200e',
    '::ffff:8.8.8.8',
    '64:ff9b::808:808',
  ])('lets %s pass', (address) => {
    expect(judge(address)).toBeNull()
  })

  it.each([
    ['0.0.0.0', 'the unspecified address'],
    ['0.1.2.3', 'the unspecified address'],
    ['10.0.0.1', 'a private address'],
    ['172.16.0.1', 'a private address'],
    ['172.31.255.255', 'a private address'],
    ['192.168.255.255', 'a private address'],
    ['100.64.0.1', 'an address of a carrier’s NAT'],
    ['100.100.100.200', 'an address of a carrier’s NAT'],
    ['127.0.0.1', 'a loopback address'],
    ['127.255.255.254', 'a loopback address'],
    ['169.254.169.254', 'a link-local address'],
    ['169.254.170.2', 'a link-local address'],
    ['168.63.129.16', 'the metadata service of a cloud'],
    ['192.0.0.192', 'not a public address (reserved)'],
    ['192.0.2.1', 'not a public address (reserved)'],
    ['192.88.99.1', 'not a public address (reserved)'],
    ['198.18.0.1', 'not a public address (reserved)'],
    ['198.19.255.255', 'not a public address (reserved)'],
    ['198.51.100.7', 'not a public address (reserved)'],
    ['203.0.113.7', 'not a public address (reserved)'],
    ['224.0.0.1', 'a multicast address'],
    ['239.255.255.250', 'a multicast address'],
    ['240.0.0.1', 'not a public address (reserved)'],
    ['255.255.255.255', 'a broadcast address'],
    ['::', 'the unspecified address'],
    ['::1', 'a loopback address'],
    ['::127.0.0.1', 'a loopback address'],
    ['::7f00:1', 'not a public address (unicast)'],
    ['::808:808', 'not a public address (unicast)'],
    ['::ffff:127.0.0.1', 'a loopback address'],
    ['::ffff:169.254.169.254', 'a link-local address'],
    ['::ffff:0:127.0.0.1', 'not a public address (rfc6145)'],
    ['64:ff9b::7f00:1', 'a loopback address'],
    ['64:ff9b::a9fe:a9fe', 'a link-local address'],
    ['64:ff9b:1::808:808', 'not a public address (rfc6052)'],
    ['100::1', 'not a public address (discard)'],
    ['2001::1', 'not a public address (teredo)'],
    ['2001:2::1', 'not a public address (benchmarking)'],
    ['2001:10::1', 'not a public address (deprecatedOrchid)'],
    ['2001:db8::1', 'not a public address (reserved)'],
    ['2002:7f00:1::', 'not a public address (6to4)'],
    ['2002:808:808::', 'not a public address (6to4)'],
    ['3fff::1', 'not a public address (reserved)'],
    ['5f00::1', 'not a public address (segmentRouting)'],
    ['4000::1', 'not a public address (unicast)'],
    ['fc00::1', 'a private address'],
    ['fd00:ec2::254', 'a private address'],
    ['fd20:ce::254', 'a private address'],
    ['fe80::1', 'a link-local address'],
    ['fe80::1%eth0', 'a link-local address'],
    ['fec0::1', 'not a public address (deprecatedSiteLocal)'],
    ['ff02::1', 'a multicast address'],
  ])('refuses %s as %s', (address, why) => {
    expect(judge(address)).toBe(why)
  })

  it("refuses the worker's own addresses in every spelling, including public ones", () => {
    const own = ['93.184.216.34', '2606:4700::5%eth0']
    expect(judge('93.184.216.34', 443, [], own)).toBe('an address of the worker itself')
    expect(judge('::ffff:93.184.216.34', 443, [], own)).toBe('an address of the worker itself')
    expect(judge('2606:4700::5', 443, [], own)).toBe('an address of the worker itself')
    expect(judge('93.184.216.35', 443, [], own)).toBeNull()
  })

  it('allows private ranges that the operator listed, with their port if they have one', () => {
    expect(judge('10.1.2.3', 443, ['10.1.0.0/16'])).toBeNull()
    expect(judge('10.2.0.0', 443, ['10.1.0.0/16'])).toBe('a private address')
    expect(judge('10.1.2.3', 8080, ['10.1.0.0/16:8080'])).toBeNull()
    expect(judge('10.1.2.3', 8081, ['10.1.0.0/16:8080'])).toBe('a private address')
    expect(judge('fd00::1', 443, ['[fd00::/8]:443'])).toBeNull()
    expect(judge('fd00::1', 80, ['[fd00::/8]:443'])).toBe('a private address')
    expect(judge('fd00::1', 80, ['fd00::/8'])).toBeNull()
    expect(judge('::ffff:10.1.2.3', 443, ['10.1.0.0/16'])).toBeNull()
  })
})
