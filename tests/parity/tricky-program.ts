/** A program of our own that must run the same with and without us, however long each of its steps takes. */
import type { Ending } from '@cofferdam/contract'
import type { TestProgram } from './bare-run.ts'

export interface TrickyProgram extends Omit<TestProgram, 'language'> {
  /** What is tricky about it. */
  name: string
  /** The verdict, if it says more than the exit code does. */
  ending?: Ending
}
