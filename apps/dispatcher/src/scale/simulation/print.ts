/**
 * Prints the tables of docs/operations/dispatcher-scaling.md:
 * `node apps/dispatcher/src/scale/simulation/print.ts`. It takes about 15 s.
 */
import { rowOf, runDays, seedsUpTo, summarise } from './compare.ts'
import { USUAL_DAY, type Scenario } from './day.ts'
import { ourRule, ourRuleByKeda, sampleRule, sampleRuleWithAcks } from './policies.ts'
import type { Policy } from './simulate-pool.ts'

const SEEDS = seedsUpTo(24)

function print(title: string, rows: [name: string, rule: () => Policy, scenario?: Scenario][]): void {
  console.log(`\n${title}\n`)
  console.log('| | cold starts | wait p50, s | p99 | p99.9 | idle pod-hours | pod-hours in all |')
  console.log('| --- | --- | --- | --- | --- | --- | --- |')
  for (const [name, rule, scenario = USUAL_DAY] of rows)
    console.log(rowOf(name, summarise(runDays(rule, scenario, SEEDS))))
}

const NO_BURSTS: Scenario = { ...USUAL_DAY, bursts: { count: 0, least: 0, most: 0 } }

print('The usual day', [
  ['our rule', () => ourRule()],
  ['our rule, applied by KEDA', () => ourRuleByKeda()],
  ['our rule, applied by KEDA, with `burst_margin: 13`', () => ourRuleByKeda({ burst_margin: 13 })],
  ['the sample: depth + pending, nothing acknowledged', sampleRule],
  ['the same formula, items acknowledged', sampleRuleWithAcks],
])
const days: [name: string, scenario: Scenario][] = [
  ['sessions of 2 minutes', { ...USUAL_DAY, meanSeconds: 120 }],
  ['sessions of 10 minutes', { ...USUAL_DAY, meanSeconds: 600 }],
  ['a third of the steady sessions', { ...USUAL_DAY, peakPerSecond: 0.033 }],
  ['three times the steady sessions', { ...USUAL_DAY, peakPerSecond: 0.3 }],
  ['no bursts', NO_BURSTS],
  ['bursts of 100 sessions', { ...USUAL_DAY, bursts: { count: 12, least: 100, most: 100 } }],
]
print(
  'Other days',
  days.flatMap(([name, scenario]) => [
    [`${name}: ours`, () => ourRule(), scenario],
    [`${name}: the sample`, sampleRule, scenario],
  ]),
)
print(
  'Values of `burst_margin`',
  [3, 5, 7, 10, 13].flatMap((burst_margin) => [
    [`${burst_margin}`, () => ourRule({ burst_margin })],
    [`${burst_margin}, no bursts`, () => ourRule({ burst_margin }), NO_BURSTS],
  ]),
)
