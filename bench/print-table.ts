/** Prints a report as a table. */
import type { BenchReport, Measured } from './report.ts'

export function printTable(report: BenchReport): void {
  const { host } = report
  const machine = `${host.cpus} cores (${host.cpu_model}), ${host.memory_mib} MiB`
  console.log(`${machine}, Linux ${host.kernel}, Node ${host.node}\n`)
  console.log('| what | unit | p50 or value | p90 | p99 | min–max | n |\n|---|---|---|---|---|---|---|')
  for (const [name, measured] of Object.entries(report.results)) console.log(row(name, measured))
  for (const [name, why] of Object.entries(report.skipped)) console.log(`\nnot measured: ${name}: ${why}`)
}

function row(name: string, m: Measured): string {
  if (m.summary !== undefined) {
    const s = m.summary
    return `| ${name} | ${m.unit} | ${s.p50} | ${s.p90} | ${s.p99} | ${s.min}–${s.max} | ${s.n} |`
  }
  if (m.ratio !== undefined) {
    const r = m.ratio
    return `| ${name} | ${m.unit} | ${r.median} | | | ${r.p10}–${r.p90} (p10–p90) | ${r.n} |`
  }
  return `| ${name} | ${m.unit} | ${m.value} | | | | |`
}
