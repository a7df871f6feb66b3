/** Conformance of the bwrap rung: real sandboxes, killed from outside by their pids in /proc. */
import { newWorkerId } from '@cofferdam/contract'
import { isLongTier } from '@cofferdam/embedded/needs'
import { exerciseBackend } from '../../conformance/index.ts'
import { killAgent, onRung } from '../../test/host-rungs.ts'

const common = { needs: ['bwrap'], destroyUnderneath: killAgent } as const

await exerciseBackend('process', ...onRung('bwrap', common))

const warmOwner = newWorkerId('c0ffee000001')
if (isLongTier()) await exerciseBackend('process', ...onRung('bwrap', { ...common, warmOwner }))
