import { executionWhySchema, WHY_QUESTIONS } from '@cofferdam/contract'
import { openApi } from '../api-connection.ts'
import { API_FLAGS, type Command } from '../command.ts'
import { EXIT } from '../exit-status.ts'
import { executionIdOf } from '../parse-command-line.ts'

const TITLES: Readonly<Record<(typeof WHY_QUESTIONS)[number], string>> = {
  waits: 'why it waits',
  refused: 'why it was refused',
  backend: 'why it ran there',
  ending: 'why it ended so',
}

export const command: Command = {
  usage: 'ID',
  flags: { ...API_FLAGS },
  words: { min: 1, max: 1 },
  examples: ['cofferdam why exe_0193…', 'cofferdam why exe_0193… --json | jq .facts[0].code'],
  async run(context, line) {
    const { terminal } = context
    const path = `/v1/executions/${executionIdOf(line)}/why`
    const why = await openApi(context, line).ask(executionWhySchema, 'GET', path)
    terminal.value(why)
    terminal.line(`${why.execution_id}  ${terminal.style('bold', why.status)}`)
    if (why.facts.length === 0) terminal.line('  It runs, and nothing holds it up.')
    for (const question of WHY_QUESTIONS) {
      const facts = why.facts.filter((fact) => fact.question === question)
      if (facts.length > 0) terminal.line(`  ${terminal.style('bold', TITLES[question])}`)
      for (const { code, text, since, action } of facts) {
        terminal.line(`    ${code}: ${text}${since === undefined ? '' : ` Since ${since}.`}`)
        if (action !== undefined) terminal.line(`      → ${action}`)
      }
    }
    return EXIT.ok
  },
}
