/** Conformance of the self-jail rung, on whatever namespaces this host gives it. */
import { exerciseBackend } from '../../conformance/index.ts'
import { killAgent, onRung } from '../../test/host-rungs.ts'

await exerciseBackend('process', ...onRung('self', { destroyUnderneath: killAgent }))
