/** Conformance of the plain subprocess, without isolation. */
import { exerciseBackend, RUNG_THEMES } from '../../conformance/index.ts'
import { killAgent, onRung } from '../../test/host-rungs.ts'

await exerciseBackend(
  'none',
  ...onRung('none', { destroyUnderneath: killAgent, shortThemes: RUNG_THEMES, surroundings: 'agent' }),
)
