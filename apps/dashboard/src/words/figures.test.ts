import { expect, it } from 'vitest'
import { cost, count, counted, duration, percent, relative, size } from './figures.ts'

it.each([
  [0, '0 ms'],
  [-5, '0 ms'],
  [999.4, '999 ms'],
  [1000, '1.0 s'],
  [59_999, '60 s'],
  [60_000, '1 m 00 s'],
  [3_725_000, '1 h 02 m'],
  [200_000_000, '2 d 7 h'],
])('writes %d ms as %s', (ms, words) => {
  expect(duration(ms)).toBe(words)
})

it.each([
  [0, '0 B'],
  [1023, '1023 B'],
  [1024, '1.0 KiB'],
  [220_200_960, '210 MiB'],
  [2 ** 60, '1048576 TiB'],
])('writes %d bytes as %s', (bytes, words) => {
  expect(size(bytes)).toBe(words)
})

it('writes moments from now in both directions', () => {
  expect(relative(1000, 1900)).toBe('just now')
  expect(relative(0, 4200)).toBe('4 s ago')
  expect(relative(130_000, 0)).toBe('in 2 m')
  expect(relative(0, 90_000_000)).toBe('25 h ago')
})

it('writes counts and cost', () => {
  expect(count(1_234_567)).toBe('1,234,567')
  expect(counted(1, 'worker')).toBe('1 worker')
  expect(counted(0, 'worker')).toBe('0 workers')
  expect(cost(0)).toBe('0')
  expect(cost(4200)).toBe('0.0042')
  expect(cost(250_000_000)).toBe('250')
})

it.each([
  [0, '0 %'],
  [0.000_01, '< 0.01 %'],
  [0.0004, '0.04 %'],
  [0.0421, '4.2 %'],
  [0.0996, '10 %'],
  [1, '100 %'],
])('writes the part %d as %s', (part, words) => {
  expect(percent(part)).toBe(words)
})
