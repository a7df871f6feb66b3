/** Conformance of the self-jail, with the namespaces that this host allows. */
import { newWorkerId } from '@cofferdam/contract'
import { isLongTier } from '@cofferdam/embedded/needs'
import { exerciseBackend, RUNG_THEMES } from '../../conformance/index.ts'
import { killAgent, onRung } from '../../test/host-rungs.ts'

const common = { needs: ['self-jail'], destroyUnderneath: killAgent } as const

await exerciseBackend('process', ...onRung('self', { ...common, shortThemes: RUNG_THEMES }))

const warmOwner = newWorkerId('c0ffee000002')
if (isLongTier()) await exerciseBackend('process', ...onRung('self', { ...common, warmOwner }))
