/** Conformance of the plain subprocess, without isolation. */
import { exerciseBackend } from '../../conformance/index.ts'
import { killAgent, onRung } from '../../test/host-rungs.ts'

// The other themes test code that is shared with the process backend, whose tests run all themes.
const shortThemes = ['lifecycle', 'environment', 'surroundings', 'network', 'separation', 'lost'] as const

await exerciseBackend(
  'none',
  ...onRung('none', { destroyUnderneath: killAgent, shortThemes, surroundings: 'agent' }),
)
