/** Conformance of the bwrap rung: real sandboxes, killed from outside with what /proc shows. */
import { exerciseBackend } from '../../conformance/index.ts'
import { killAgent, onRung } from '../../test/host-rungs.ts'

await exerciseBackend('process', ...onRung('bwrap', { destroyUnderneath: killAgent }))
