/** The exact output of shells and interpreters when a runner is missing. */
import { expect, it } from 'vitest'
import { missingRunner } from './missing-runner.ts'

it.each([
  ['vitest', 'bash: line 7: exec: vitest: not found', 'vitest'],
  ['jest', '/bin/sh: 7: exec: jest: not found', 'jest'],
  ['npm', '> tsc && ava\n\nsh: 1: ava: not found', 'ava'],
  ['mocha', 'bash: line 8: mocha: command not found', 'mocha'],
] as const)('advises an install first when %s is missing', (framework, printed, name) => {
  expect(missingRunner(framework, 127, printed)).toContain(`${name} is not installed. Run an install first`)
})

it('reports a missing pytest, which is a module', () => {
  const said = missingRunner('pytest', 1, '/usr/bin/python3: No module named pytest')
  expect(said).toContain('pytest is not installed. Run an install first')
})

it('reports that a toolchain is not in the image', () => {
  expect(missingRunner('go', 127, 'go: not found')).toContain("go is not in the sandbox's image")
})

it('reports nothing when the runner exists', () => {
  expect(missingRunner('npm', 1, 'sh: 1: ava: not found')).toBeNull()
  expect(missingRunner('npm', 127, 'no such thing')).toBeNull()
  expect(missingRunner('unittest', 1, "No module named 'pytest'")).toBeNull()
})
