/** Every flavour of the chart matches the schemas that Kubernetes and the operators publish. */
import { needs } from '@cofferdam/embedded/needs'
import { expect, it } from 'vitest'
import { renderFlavours } from './flavours.ts'
import { schemaProblems } from './published-schemas.ts'
import { renderChart, SANDBOXES, type Rendered } from './render-chart.ts'

const deployment = (change: object): Rendered => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'a' },
  spec: { selector: {}, template: { spec: { containers: [{ name: 'a' }] } }, ...change },
})

it('the check refuses an unknown field, a wrong type, a missing field and an unknown kind', async () => {
  expect(await schemaProblems([['good', deployment({})]])).toEqual([])
  const told = await schemaProblems([
    ['unknown', deployment({ replica: 2 })],
    ['wrong', deployment({ replicas: '2' })],
    ['missing', deployment({ selector: undefined })],
    ['kind', { ...deployment({}), kind: 'Deploiment' }],
    [
      'deep',
      deployment({
        template: { spec: { containers: [{ name: 'a', securityContext: { runAsRoot: false } }] } },
      }),
    ],
  ])
  for (const title of ['unknown', 'wrong', 'missing', 'kind', 'deep'])
    expect(told.join('\n'), title).toMatch(new RegExp(`^${title}: `, 'm'))
})

needs('helm').it('all objects of all flavours match the published schemas', async () => {
  const rendered = (await renderFlavours()).flatMap(([title, objects]) =>
    objects.map((object) => [title, object] as const),
  )
  const alone = await renderChart({ chart: SANDBOXES, release: 'sandboxes' })
  const all = [...rendered, ...alone.map((object) => ['the sandboxes alone', object] as const)]
  expect(all.length).toBeGreaterThan(150)
  expect(await schemaProblems(all)).toEqual([])
})
