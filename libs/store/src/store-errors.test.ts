import { CofferdamError } from '@cofferdam/contract'
import { describe, expect, it } from 'vitest'
import { failureOf, toStoreError } from './store-errors.ts'

const coded = (code: string, message = 'x'): Error => Object.assign(new Error(message), { code })

describe('failureOf', () => {
  it.each([
    'ECONNREFUSED',
    'ENOENT',
    'EPIPE',
    '57P01',
    '57P03',
    '57014',
    '53300',
    '08006',
    '40P01',
    '55P03',
    '25006',
  ])('classifies %s as away', (code) => expect(failureOf(coded(code))).toBe('away'))
  it.each([
    'timeout exceeded when trying to connect',
    'Query read timeout',
    'Connection terminated unexpectedly',
  ])('classifies "%s" as away', (message) => expect(failureOf(new Error(message))).toBe('away'))
  it.each(['42P01', '42501', '28P01', '3D000'])('classifies %s as a setup error', (code) =>
    expect(failureOf(coded(code))).toBe('set-up'),
  )
  it.each(['23514', '22P02', '22001', '22008'])('classifies %s as data', (code) =>
    expect(failureOf(coded(code))).toBe('data'),
  )
  it('classifies a host as away when all its addresses fail', () => {
    expect(failureOf(new AggregateError([coded('ECONNREFUSED'), coded('EHOSTUNREACH')]))).toBe('away')
    expect(failureOf(new AggregateError([coded('ECONNREFUSED'), coded('23514')]))).toBe('data')
  })
})

describe('toStoreError', () => {
  it('keeps our own errors, and never repeats a message of Postgres', () => {
    const ours = new CofferdamError('not_found')
    expect(toStoreError(ours, 'x')).toBe(ours)
    const leaky = coded('23514', 'Failing row contains (secret)')
    expect(toStoreError(leaky, 'the row').message).not.toContain('secret')
    expect(toStoreError(leaky, 'the row').cause).toBe(leaky)
  })
})
