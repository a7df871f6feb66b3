/** Conformance of the plain subprocess, without isolation. */
import { exerciseBackend } from '../../conformance/index.ts'
import { killAgent, onRung } from '../../test/host-rungs.ts'

// The rest is the same code as of the process backend, which runs it whole.
const shortThemes = ['lifecycle', 'environment', 'surroundings', 'network', 'separation', 'lost'] as const

await exerciseBackend(
  'none',
  ...onRung('none', { destroyUnderneath: killAgent, shortThemes, surroundings: 'agent' }),
)
