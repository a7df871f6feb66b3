import { describe, expect, it, vi } from 'vitest'
import { createTextGuard, SCAN_MAX, TEXT_MAX } from './guard-text.ts'

const SECRET = 'sk-0123456789abcdef0123456789abcdef'
const guard = createTextGuard((text) => text.replaceAll(SECRET, '[redacted]'))

describe('the text guard', () => {
  it('redacts before it cuts, so that no part of a secret is left at the edge', () => {
    for (let before = TEXT_MAX - SECRET.length; before <= TEXT_MAX; before++) {
      const shown = guard('a'.repeat(before) + SECRET + 'z'.repeat(100))
      expect(shown.length).toBeLessThanOrEqual(TEXT_MAX)
      expect(shown).not.toContain('sk-')
    }
  })

  it('drops the part of a secret that the SDK cut at its limit', () => {
    for (let kept = 1; kept < SECRET.length; kept++) {
      const cut = `${'a'.repeat(SCAN_MAX - kept)}${SECRET}`.slice(0, SCAN_MAX)
      expect(guard(cut)).toMatch(/^a{2047}…$/)
      // The part of the cut secret is also dropped if redaction makes the text before it much shorter.
      const shrinking = `${SECRET.repeat(220)}${'b'.repeat(SCAN_MAX)}`.slice(0, SCAN_MAX - kept) + SECRET
      expect(guard(shrinking.slice(0, SCAN_MAX))).not.toContain('sk-')
    }
  })

  it('returns ordinary text unchanged and cuts long text', () => {
    expect(guard('')).toBe('')
    expect(guard('docker')).toBe('docker')
    expect(guard('x'.repeat(TEXT_MAX))).toBe('x'.repeat(TEXT_MAX))
    expect(guard('x'.repeat(10_000_000))).toHaveLength(TEXT_MAX)
  })

  it('caches short texts, and returns nothing of a text when the redactor fails', () => {
    const redact = vi.fn((text: string) => text)
    const once = createTextGuard(redact)
    for (let i = 0; i < 10; i++) once('docker')
    expect(redact).toHaveBeenCalledTimes(1)
    const broken = createTextGuard(() => {
      throw new Error('no')
    })
    expect([broken('short'), broken('x'.repeat(1000))]).toEqual(['[redaction failed]', '[redaction failed]'])
  })

  it('caches a bounded number of texts', () => {
    const redact = vi.fn((text: string) => text)
    const once = createTextGuard(redact)
    for (let i = 0; i < 10_000; i++) once(`text ${i}`)
    once('text 9999')
    expect(redact).toHaveBeenCalledTimes(10_000)
  })
})
