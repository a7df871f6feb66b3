/** Slots that wait for their one program, and cells that serve one session or tenant. */
export { warmConfigSchema, type WarmConfig } from './config.ts'
export { createRefillGate, type RefillGate } from './refill-gate.ts'
export type { CellState, PausedCells } from './paused-cells.ts'
export { refuseBeginning, unlike } from './session-refusals.ts'
export {
  kindOf,
  mayRunNode,
  refOf,
  runKeeps,
  type CellSlot,
  type Preloads,
  type Slot,
  type SlotKind,
  type SlotSpec,
  type SlotLimits,
} from './slot.ts'
export { createWarmth, type BoundSlot, type Warmth } from './warmth.ts'
export type { WarmDeps, WarmEvent, WarmMemory } from './warm-deps.ts'
