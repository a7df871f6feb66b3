import { describe, expect, it } from 'vitest'
import { parseAuthority, parseHost } from './host.ts'

const spelled = (text: string): string | undefined => parseAuthority(text, 80)?.text

describe('parseAuthority', () => {
  it.each([
    ['EXAMPLE.com', 'example.com:80'],
    ['example.com.', 'example.com:80'],
    ['example.com:443', 'example.com:443'],
    ['example.com:', 'example.com:80'],
    ['example.com:0080', 'example.com:80'],
    ['bücher.example', 'xn--bcher-kva.example:80'],
    ['ex%61mple.com', 'example.com:80'],
    ['[2001:DB8::1]:8080', '[2001:db8::1]:8080'],
    ['0x7f.1', '127.0.0.1:80'],
    ['2130706433', '127.0.0.1:80'],
    ['017700000001', '127.0.0.1:80'],
    ['0300.0250.1', '192.168.0.1:80'],
    ['127.1.', '127.0.0.1:80'],
    ['１２７．０．０．１', '127.0.0.1:80'],
    ['①②⑦.⓪.⓪.①', '127.0.0.1:80'],
    ['[::ffff:7f00:1]', '[::ffff:7f00:1]:80'],
  ])('reads %s as %s', (written, meant) => {
    expect(spelled(written)).toBe(meant)
  })

  it.each([
    '',
    ':80',
    'a b',
    'a@b',
    'a\\b',
    'a/b',
    'a?b',
    'a#b',
    'a:b',
    'a:70000',
    'a:0',
    'a:-1',
    'a::80',
    'a..b',
    '1.2.3.256',
    '1.2.3.4.5',
    'foo.0x',
    '[::1',
    '[fe80::1%25eth0]',
    '[fe80::1%eth0]',
    "a'b.example",
    'a,b.example',
    '-a.example',
    `${'a'.repeat(64)}.example`,
    `${'a.'.repeat(127)}example`,
    'good.example＠evil.example',
    'good.example／evil',
    'a\u0000.example',
    'a\r\nb',
  ])('reads no host from %j', (written) => {
    expect(spelled(written)).toBeUndefined()
  })

  it('uses the default port only when no port is written', () => {
    expect(parseAuthority('a.example', 443)?.port).toBe(443)
    expect(parseAuthority('a.example:80', 443)?.port).toBe(80)
    expect(parseAuthority('[::1]', 443)?.port).toBe(443)
  })
})

describe('parseHost', () => {
  it('distinguishes names from addresses, and accepts IPv6 without brackets', () => {
    expect(parseHost('a.example')?.kind).toBe('name')
    expect(parseHost('::1')).toMatchObject({ kind: 'address', text: '[::1]' })
    expect(parseHost('a.example:80')).toBeNull()
  })
})
