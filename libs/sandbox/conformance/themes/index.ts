/** The themes of the conformance suite, in the order in which they run. */
import type { Harness } from '../harness.ts'
import { abort } from './abort.ts'
import { background } from './background.ts'
import { bounds } from './bounds.ts'
import { environment } from './environment.ts'
import { exit } from './exit.ts'
import { files } from './files.ts'
import { interrupt } from './interrupt.ts'
import { lifecycle } from './lifecycle.ts'
import { lost } from './lost.ts'
import { network } from './network.ts'
import { output } from './output.ts'
import { parallel } from './parallel.ts'
import { probe } from './probe.ts'
import { progress } from './progress.ts'
import { refusal } from './refusal.ts'
import { reuse } from './reuse.ts'
import { separation } from './separation.ts'
import { sequences } from './sequences.ts'
import { stdin } from './stdin.ts'
import { surroundings } from './surroundings.ts'
import { usage } from './usage.ts'
import { warm } from './warm.ts'

export const THEMES = {
  probe,
  lifecycle,
  exit,
  output,
  stdin,
  files,
  environment,
  surroundings,
  interrupt,
  bounds,
  network,
  separation,
  parallel,
  abort,
  lost,
  usage,
  refusal,
  progress,
  reuse,
  sequences,
  background,
  warm,
} satisfies Record<string, (harness: Harness) => void>

export type Theme = keyof typeof THEMES
