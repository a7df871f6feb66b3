/** Conformance of the self-jail where the host gives no namespaces: Landlock, seccomp and the process tree. */
import { exerciseBackend } from '../../conformance/index.ts'
import { killAgent, onRung } from '../../test/host-rungs.ts'

await exerciseBackend('process', ...onRung('self', { destroyUnderneath: killAgent }, { namespaces: false }))
