import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { compileRules } from './redaction-rules.ts'
import { createRedactor, redactText } from './redactor.ts'
import { secretLiterals } from './secret-forms.ts'
import { WINDOW } from './secret-patterns.ts'

const NO_SECRETS = compileRules([], {})
const redacted = (text: string, rules = NO_SECRETS) => redactText(rules, text).text

function inChunks(rules: typeof NO_SECRETS, bytes: Buffer, cuts: readonly number[]): Buffer {
  const redactor = createRedactor(rules)
  const edges = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length]
  const parts = edges
    .slice(1)
    .map((edge, nth) => Buffer.from(redactor.push(bytes.subarray(edges[nth], edge))))
  return Buffer.concat([...parts, redactor.flush()])
}

describe('a large output', () => {
  it('uses the same two buffers, whatever is held back between chunks', () => {
    const redactor = createRedactor(compileRules(['a-secret-of-some-length'], {}))
    const used = new Set<ArrayBufferLike>()
    for (let n = 0; n < 200; n++)
      used.add(redactor.push(Buffer.from(`${'x'.repeat(65_000)} eyJhbGciOi`)).buffer)
    expect(used.size).toBeLessThanOrEqual(2 + 1)
  })
})

describe('crafted output', () => {
  it('creates no strings, even if a rule might begin at every byte', () => {
    const rules = compileRules(['bearbearing-is-a-secret'], {})
    const made = vi.spyOn(Buffer.prototype, 'toString')
    try {
      for (const text of ['-', '-----BEGIN ', '://', 'eyJ ', 'bear', 'gho_', 'authorization: ', 'AKIA']) {
        const before = made.mock.calls.length
        createRedactor(rules).push(Buffer.alloc(1 << 20, text))
        // A few strings are allowed, because the end of the chunk may cut off a match.
        expect(made.mock.calls.length - before, text).toBeLessThanOrEqual(20)
      }
    } finally {
      made.mockRestore()
    }
  })
})

describe('patterns', () => {
  const token = 'abcdefghij0123456789ABCDEFGHIJ'
  it.each([
    ['Authorization: Bearer abcdef12', 'Authorization: Bearer <redacted>'],
    ['{"authorization": "Basic dXNlcjpwYXNz"}', '{"authorization": "Basic <redacted>"}'],
    [`bearer ${token} x`, 'bearer <redacted> x'],
    ['the bearer authentication-is-required-here', 'the bearer authentication-is-required-here'],
    [`a=eyJ${token}.eyJz.${token}; b`, 'a=<redacted>; b'],
    [`eyJ${token}.${token}`, `eyJ${token}.${token}`],
    [`\\neyJ${token}.${token}.${token}\\n`, '\\n<redacted>\\n'],
    [`ghp_${token} gho_${token} ghu_short`, '<redacted> <redacted> ghu_short'],
    [`github_pat_${token}`, '<redacted>'],
    [`glpat-${token}`, '<redacted>'],
    ['xoxb-1234567890-ab xapp-1-A0123456789', '<redacted> <redacted>'],
    [`ya29.${token}`, '<redacted>'],
    ['AKIAABCDEFGHIJKLMNOP ASIAABCDEFGHIJKLMNOP AKIAabc', '<redacted> <redacted> AKIAabc'],
    [`AIza${token}12345`, '<redacted>'],
    [`sk-proj-${token}, task-${token}`, `<redacted>, task-${token}`],
    [
      '<a class="sk-toggleable__label-arrow-with-words">',
      '<a class="sk-toggleable__label-arrow-with-words">',
    ],
    [`cfd_${'0123456789'.repeat(4)}`, '<redacted>'],
    [`e2b_${'0123456789'.repeat(4)} e2b_slot`, '<redacted> e2b_slot'],
    ['postgres://user:p@ss@host/db', 'postgres://<redacted>@host/db'],
    ['https://host:8080/x git+ssh://git@host/y', 'https://host:8080/x git+ssh://git@host/y'],
    [`https://${token}@host`, 'https://<redacted>@host'],
    [
      'a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE+/=\nabc\n-----END RSA PRIVATE KEY-----\nb',
      'a\n<redacted>\nb',
    ],
    ['-----BEGIN CERTIFICATE-----\nMIIE', '-----BEGIN CERTIFICATE-----\nMIIE'],
  ])('shows %j as %j', (text, shown) => {
    expect(redacted(text)).toBe(shown)
  })

  it('cover a token of any length without holding it back', () => {
    const redactor = createRedactor(NO_SECRETS)
    redactor.push(Buffer.from(`sk-${'a1'.repeat(20)}`))
    for (let n = 0; n < 100; n++) expect(redactor.push(Buffer.alloc(1000, 'a'))).toHaveLength(0)
    expect(Buffer.from(redactor.push(Buffer.from(' .'))).toString()).toBe(' .')
    expect(redactor.hits).toBe(1)
  })

  it('give up a private key that never ends instead of swallowing the output', () => {
    const shown = redacted(`-----BEGIN PRIVATE KEY-----\n${'word '.repeat(10_000)}`)
    expect(shown.length).toBeGreaterThan(30_000)
  })

  it('hold back at most 8 KiB', () => {
    const redactor = createRedactor(NO_SECRETS)
    let out = 0
    let pushed = 0
    for (let n = 0; n < 64; n++) {
      const chunk = Buffer.alloc(1024, n === 0 ? 'eyJ' : 'a')
      out += redactor.push(chunk).length
      pushed += chunk.length
      expect(pushed - out).toBeLessThanOrEqual(WINDOW + 1024)
    }
  })

  it('do not delay the end of a prompt', () => {
    const redactor = createRedactor(compileRules(['hunter2-hunter2-hunter2'], {}))
    expect(Buffer.from(redactor.push(Buffer.from('Name? '))).toString()).toBe('Name? ')
  })
})

describe('known secrets', () => {
  const secret = 'correct horse/battery+staple=ü'
  const rules = compileRules([secret], {})
  const bytes = Buffer.from(secret)

  it.each([
    ['clear', secret],
    ['base64', bytes.toString('base64')],
    ['base64 without padding', bytes.toString('base64').replace(/=+$/, '')],
    ['base64url', bytes.toString('base64url')],
    ['hex', bytes.toString('hex')],
    ['upper-case hex', bytes.toString('hex').toUpperCase()],
    ['encodeURIComponent', encodeURIComponent(secret)],
    ['form encoding', new URLSearchParams({ x: secret }).toString().slice(2)],
    ['JSON', JSON.stringify(secret).slice(1, -1)],
  ])('are covered as %s', (_form, text) => {
    expect(redacted(`<${text}>`, rules)).toBe('<<redacted>>')
  })

  it.each([0, 1, 2])('are covered inside a longer base64 text, at alignment %i', (lead) => {
    const text = Buffer.from(`${'x'.repeat(lead)}${secret} and more`).toString('base64')
    expect(redacted(text, rules)).toContain('<redacted>')
    const shown = Buffer.from(redacted(text, rules).replace('<redacted>', ''), 'base64').toString()
    expect(shown).not.toContain('horse')
  })

  it('are covered if the end of the output cuts them off', () => {
    expect(redacted(`a ${secret.slice(0, 15)}`, rules)).toBe('a <redacted>')
    expect(redacted(`a ${secret.slice(0, 6)}`, rules)).toBe(`a ${secret.slice(0, 6)}`)
  })

  it('include variables whose names look secret, and no others', () => {
    const env = {
      DB_PASSWORD: 'first-secret-value',
      API_KEY: 'second-secret-value',
      GIT_AUTHOR_NAME: 'Jane Q. Developer',
      SHORT_TOKEN: 'short',
    }
    expect(redacted(Object.values(env).join('|'), compileRules([], env))).toBe(
      '<redacted>|<redacted>|Jane Q. Developer|short',
    )
  })

  it('that overlap are covered together as one', () => {
    const both = compileRules(['0123456789abcdef', 'abcdefghijklmnop'], {})
    expect(redactText(both, '[0123456789abcdefghijklmnop]')).toEqual({ text: '[<redacted>]', hits: 1 })
  })

  it('of 32 KiB are covered', () => {
    const long = Array.from({ length: 4096 }, (_, n) => n.toString(36).padStart(8, 'z')).join('')
    expect(redacted(`a ${long} b`, compileRules([], { TOKEN: long }))).toBe('a <redacted> b')
  })
})

describe('any output', () => {
  // Fragments similar to what is redacted, so that matches, near misses and overlaps are common.
  const fragment = fc.oneof(
    fc.constantFrom(
      'eyJhbGciOiJIUzI1NiJ9',
      '.eyJzdWIiOiIxIn0',
      '.c2lnbmF0dXJlLWJ5dGVz',
      'ghp_0123456789abcdefghij',
      'sk-abcdefghij0123456789',
      'Authorization: Bearer ',
      '://user:pass',
      '@host ',
      '-----BEGIN PRIVATE KEY-----\n',
      'MIIEvQIBADAN\n',
      '-----END PRIVATE KEY-----',
      'AKIA0123456789ABCDEF',
      ' ',
      '\n',
      'ü€😀',
      'the-first-secret',
      'first-secret-two-longer-than-32-bytes-in-all',
    ),
    fc.string({ maxLength: 6 }),
  )
  const output = fc.array(fragment, { maxLength: 24 }).map((parts) => Buffer.from(parts.join('')))
  const secrets = ['the-first-secret', 'first-secret-two-longer-than-32-bytes-in-all']
  const rules = compileRules(secrets, {})

  it('is redacted the same, however it is cut into chunks', () => {
    fc.assert(
      fc.property(output, fc.array(fc.nat(), { maxLength: 20 }), (bytes, cuts) => {
        expect(inChunks(rules, bytes, cuts).toString('hex')).toBe(inChunks(rules, bytes, []).toString('hex'))
      }),
      { numRuns: 1500 },
    )
  })

  it('is redacted the same when it comes byte by byte', () => {
    fc.assert(
      fc.property(output, (bytes) => {
        const everywhere = Array.from({ length: bytes.length }, (_, n) => n)
        expect(inChunks(rules, bytes, everywhere)).toEqual(inChunks(rules, bytes, []))
      }),
      { numRuns: 300 },
    )
  })

  it('shows no form of any secret', () => {
    const secret = fc
      .uint8Array({ minLength: 12, maxLength: 60 })
      .map((bytes) => Buffer.from(bytes).toString('latin1'))
      .filter((value) => Buffer.byteLength(value) >= 12)
    const noise = fc.string({ maxLength: 20 })
    fc.assert(
      fc.property(
        secret,
        noise,
        noise,
        fc.array(fc.nat(), { maxLength: 8 }),
        (value, before, after, cuts) => {
          const own = compileRules([value], {})
          for (const form of secretLiterals([value], {})) {
            const bytes = Buffer.concat([
              Buffer.from(before),
              Buffer.from(form, 'latin1'),
              Buffer.from(after),
            ])
            const shown = inChunks(own, bytes, cuts).toString('latin1')
            expect(shown).toContain('<redacted>')
            expect(shown).not.toContain(form)
          }
        },
      ),
      { numRuns: 150 },
    )
  })

  it('is unchanged when it has nothing to hide', () => {
    fc.assert(
      fc.property(fc.array(fc.stringMatching(/^[a-z 0-9]{0,40}$/)), (words) => {
        const text = words.join('\n')
        expect(redacted(text)).toBe(text)
      }),
    )
  })
})
