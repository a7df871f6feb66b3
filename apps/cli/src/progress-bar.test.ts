import { expect, it } from 'vitest'
import { progressBar } from './progress-bar.ts'

it('draws nothing, half and all of it, and says 100 % only at the end', () => {
  expect(progressBar(0, '')).toBe(`[${'·'.repeat(24)}]   0 %`)
  expect(progressBar(0.5, 'fitting')).toBe(`[${'#'.repeat(12)}${'·'.repeat(12)}]  50 %  fitting`)
  expect(progressBar(0.999, 'x')).toBe(`[${'#'.repeat(24)}]  99 %  x`)
  expect(progressBar(1, 'done')).toBe(`[${'#'.repeat(24)}] 100 %  done`)
})
