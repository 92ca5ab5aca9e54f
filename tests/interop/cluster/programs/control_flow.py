"""Branches and loops whose parts sit on different tasks."""
import numpy as np
import tensorflow.compat.v1 as tf

from programs import check
from registry import program


def conditional():
    with tf.device("/job:worker/task:0"):
        which = tf.placeholder(tf.bool, [])
        x = tf.placeholder(tf.float32, [None])

    def double():
        with tf.device("/job:ps/task:0"):
            return x * 2

    def negate():
        with tf.device("/job:ps/task:1"):
            return -x

    with tf.device("/job:worker/task:1"):
        y = tf.cond(which, double, negate) + 1
        gradient = tf.gradients(tf.reduce_sum(y), x)[0]
    return which, x, y, gradient


def check_conditional(cluster):
    which, x, y, gradient = conditional()
    value = np.array([1, 2, 3], np.float32)
    with tf.Session(cluster.target()) as sess:
        for _ in range(3):
            got, slope = sess.run([y, gradient], {which: True, x: value})
            check.equal(got, value * 2 + 1)
            check.equal(slope, np.full(3, 2, np.float32))
            got, slope = sess.run([y, gradient], {which: False, x: value})
            check.equal(got, 1 - value)
            check.equal(slope, np.full(3, -1, np.float32))


@program
def cond_v1(cluster):
    """cond (Switch and Merge): branches on two ps, value and gradient."""
    check_conditional(cluster)


@program
def cond_v2(cluster):
    """cond (If with functions): the same."""
    tf.enable_control_flow_v2()
    check_conditional(cluster)


def check_cond_state(cluster):
    with tf.device("/job:ps/task:0"):
        a = tf.get_variable("a", initializer=0.0, use_resource=True)
    with tf.device("/job:ps/task:1"):
        b = tf.get_variable("b", initializer=0.0, use_resource=True)
    which = tf.placeholder(tf.bool, [])
    with tf.device("/job:worker/task:0"):
        step = tf.cond(which, lambda: tf.assign_add(a, 1.0), lambda: tf.assign_add(b, 10.0))
    with tf.Session(cluster.target()) as sess:
        sess.run(tf.global_variables_initializer())
        for value in (True, False, True):
            sess.run(step, {which: value})
        check.that(sess.run([a, b]) == [2.0, 10.0], "the counters")


@program
def cond_state(cluster):
    """Only the branch taken changes its variable."""
    check_cond_state(cluster)


@program
def cond_state_v2(cluster):
    """The same with functions: handles of two ps go into one node."""
    tf.enable_control_flow_v2()
    check_cond_state(cluster)


def loop(limit, use_gradient):
    """x * 3**limit by a loop whose body uses two workers and a variable on a ps."""
    with tf.device("/job:ps/task:0"):
        variable = tf.get_variable("factor", initializer=3.0, use_resource=True)
        factor = variable.read_value()
    with tf.device("/job:worker/task:0"):
        x = tf.placeholder(tf.float32, [])

    def body(i, value):
        with tf.device("/job:worker/task:1"):
            value = value * factor
        with tf.device("/job:worker/task:0"):
            value = tf.identity(value)
        return i + 1, value

    with tf.device("/job:worker/task:0"):
        _, out = tf.while_loop(lambda i, _: i < limit, body, [tf.constant(0), x])
        gradients = tf.gradients(out, [x, variable]) if use_gradient else []
    return x, variable, out, gradients


def check_loop(cluster, use_gradient):
    limit = tf.placeholder(tf.int32, [])
    x, variable, out, gradients = loop(limit, use_gradient)
    with tf.Session(cluster.target()) as sess:
        sess.run(variable.initializer)
        for n in (5, 0, 1, 12):
            got = sess.run([out] + list(gradients), {x: 2.0, limit: n})
            want = [2.0 * 3.0**n, 3.0**n, 2.0 * n * 3.0 ** max(n - 1, 0)]
            check.close(got, want[:len(got)], f"{n} rounds")


@program
def while_v1(cluster):
    """A while loop (Enter, Exit, NextIteration) whose body spans two workers and a ps."""
    check_loop(cluster, use_gradient=False)


@program
def while_v1_gradient(cluster):
    """Its gradient: stacks, a backward loop across the same tasks."""
    check_loop(cluster, use_gradient=True)


@program
def while_v2(cluster):
    """A while loop (While with functions), across tasks."""
    tf.enable_control_flow_v2()
    check_loop(cluster, use_gradient=False)


@program
def while_v2_gradient(cluster):
    """Its gradient: tensor lists."""
    tf.enable_control_flow_v2()
    check_loop(cluster, use_gradient=True)


@program
def while_many_rounds(cluster):
    """A thousand rounds through two tasks."""
    def body(i):
        with tf.device("/job:worker/task:1"):
            return i + 1

    with tf.device("/job:worker/task:0"):
        last = tf.while_loop(lambda i: i < 1000, body, [tf.constant(0)])
    with tf.Session(cluster.target()) as sess:
        check.that(sess.run(last) == 1000, "the counter")


@program
def while_on_ps(cluster):
    """A loop whose condition is on a worker and whose body on a ps: both tasks share a frame."""
    def body(i, total):
        with tf.device("/job:ps/task:1"):
            return i + 1, total + i

    with tf.device("/job:worker/task:0"):
        _, total = tf.while_loop(lambda i, _: i < 10, body, [tf.constant(0), tf.constant(0)])
    with tf.Session(cluster.target()) as sess:
        check.that(sess.run(total, options=tf.RunOptions(timeout_in_ms=20000)) == 45, "the total")


def check_nested(cluster):
    def inner(i, total):
        def count(j, subtotal):
            with tf.device("/job:ps/task:1"):
                return j + 1, tf.cond(j % 2 < 1, lambda: subtotal + j, lambda: subtotal)

        with tf.device("/job:worker/task:1"):
            _, total = tf.while_loop(lambda j, _: j < i, count, [tf.constant(0), total])
        return i + 1, total

    with tf.device("/job:worker/task:0"):
        _, total = tf.while_loop(lambda i, _: i < 6, inner, [tf.constant(0), tf.constant(0)])
    with tf.Session(cluster.target()) as sess:
        check.that(sess.run(total) == sum(j for i in range(6) for j in range(i) if j % 2 == 0), "the total")


@program
def while_nested(cluster):
    """A loop in a loop with a branch inside, on three tasks."""
    check_nested(cluster)


@program
def while_nested_v2(cluster):
    """The same with functions."""
    tf.enable_control_flow_v2()
    check_nested(cluster)


@program
def while_state_v2(cluster):
    """A loop of functions that changes variables of two ps, in order, and in one of them in every second round only."""
    tf.enable_control_flow_v2()
    with tf.device("/job:ps/task:0"):
        a = tf.get_variable("a", initializer=1.0, use_resource=True)
    with tf.device("/job:ps/task:1"):
        b = tf.get_variable("b", initializer=0.0, use_resource=True)
    limit = tf.placeholder(tf.int32, [])

    def body(i):
        doubled = a.assign_add(a.read_value(), read_value=False)
        with tf.control_dependencies([doubled]):
            counted = tf.cond(i % 2 < 1, lambda: b.assign_add(a.read_value()), lambda: tf.constant(0.0))
        with tf.control_dependencies([counted]):
            return i + 1

    with tf.device("/job:worker/task:0"):
        rounds = tf.while_loop(lambda i: i < limit, body, [tf.constant(0)])
    with tf.Session(cluster.target()) as sess:
        sess.run(tf.global_variables_initializer())
        check.that(sess.run(rounds, {limit: 5}) == 5, "the rounds")
        check.that(sess.run([a, b]) == [32.0, 2.0 + 8.0 + 32.0], "the variables")
        check.that(sess.run(rounds, {limit: 0}) == 0, "no rounds")
        check.that(sess.run([a, b]) == [32.0, 42.0], "the variables, unchanged")


@program
def while_in_branch_v2(cluster):
    """A loop across tasks in a branch of functions that is taken at times."""
    tf.enable_control_flow_v2()
    which = tf.placeholder(tf.bool, [])
    x = tf.placeholder(tf.int32, [])

    def count():
        def body(i, total):
            with tf.device("/job:worker/task:1"):
                total = total + i
            with tf.device("/job:ps/task:0"):
                return i + 1, total
        return tf.while_loop(lambda i, _: i < x, body, [tf.constant(0), tf.constant(0)])[1]

    with tf.device("/job:worker/task:0"):
        y = tf.cond(which, count, lambda: x * x)
    with tf.Session(cluster.target()) as sess:
        for value in (True, False, True, False):
            check.that(sess.run(y, {which: value, x: 6}) == (15 if value else 36), f"the branch {value}")


@program
def while_tensor_array(cluster):
    """TensorArray written in a loop and stacked; map_fn, scan and fold."""
    with tf.device("/job:worker/task:1"):
        array = tf.TensorArray(tf.float32, 4)
        _, array = tf.while_loop(lambda i, _: i < 4, lambda i, a: (i + 1, a.write(i, tf.cast(i, tf.float32))),
                                 [tf.constant(0), array])
        stacked = array.stack()
        mapped = tf.map_fn(lambda v: v * v, stacked)
        scanned = tf.scan(lambda a, v: a + v, stacked)
    with tf.device("/job:ps/task:0"):
        folded = tf.foldl(lambda a, v: a + v, tf.identity(mapped))
    with tf.Session(cluster.target()) as sess:
        got = sess.run([stacked, mapped, scanned, folded])
    check.equal(got[0], np.arange(4, dtype=np.float32))
    check.equal(got[1], np.arange(4, dtype=np.float32) ** 2)
    check.equal(got[2], np.array([0, 1, 3, 6], np.float32))
    check.equal(got[3], np.float32(14))


@program
def function_calls(cluster):
    """tf.function on another task than its caller, with a variable, its gradient, and a body across tasks."""
    tf.enable_control_flow_v2()
    with tf.device("/job:ps/task:0"):
        v = tf.get_variable("v", initializer=2.0, use_resource=True)

    @tf.function
    def square_sum(x):
        return tf.reduce_sum(x * x * v)

    @tf.function
    def over_tasks(x):
        with tf.device("/job:worker/task:0"):
            y = x + 1
        with tf.device("/job:worker/task:1"):
            return y * 2

    @tf.function
    def count(n):
        total = tf.constant(0)
        for i in tf.range(n):
            if tf.equal(i % 2, 0):
                total += i
        return total

    with tf.device("/job:worker/task:1"):
        x = tf.placeholder(tf.float32, [None])
        y = square_sum(x)
        slope = tf.gradients(y, x)[0]
        spread = over_tasks(x)
        counted = count(tf.constant(7))
    with tf.Session(cluster.target()) as sess:
        sess.run(v.initializer)
        value = np.array([1, 2, 3], np.float32)
        got = sess.run([y, slope, spread, counted], {x: value})
    check.close(got[0], 28.0)
    check.close(got[1], 4 * value)
    check.close(got[2], 2 * value + 2)
    check.that(got[3] == 12, "the count")


@program
def case_and_switch(cluster):
    """tf.case and switch_case with branches on several tasks."""
    tf.enable_control_flow_v2()
    index = tf.placeholder(tf.int32, [])

    def on(device, value):
        def branch():
            with tf.device(device):
                return tf.constant(value) + 0.5
        return branch

    branches = [on("/job:ps/task:0", 1.0), on("/job:ps/task:1", 2.0), on("/job:worker/task:2", 3.0)]
    with tf.device("/job:worker/task:0"):
        switched = tf.switch_case(index, branches)
        cased = tf.case([(tf.equal(index, 0), branches[0]), (tf.equal(index, 1), branches[1])], default=branches[2])
    with tf.Session(cluster.target()) as sess:
        for i in range(3):
            check.that(sess.run([switched, cased], {index: i}) == [i + 1.5, i + 1.5], f"branch {i}")


def check_recurrent(cluster):
    def build(target, devices):
        rng = np.random.default_rng(21)
        at = (lambda name: tf.device(name)) if devices else (lambda name: tf.device(None))
        with at("/job:ps/task:1"):
            w = tf.get_variable("w", initializer=rng.normal(0, 0.5, (3, 3)).astype(np.float32))
        with at("/job:worker/task:0"):
            inputs = tf.constant(rng.normal(size=(6, 2, 3)).astype(np.float32))
            _, state = tf.while_loop(lambda t, _: t < 6, lambda t, s: (t + 1, tf.tanh(tf.matmul(s, w) + inputs[t])),
                                     [tf.constant(0), tf.zeros([2, 3])], shape_invariants=[tf.TensorShape([]),
                                                                                         tf.TensorShape([2, 3])])
            loss = tf.reduce_sum(state * state)
            step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        with tf.Session(target) as sess:
            sess.run(tf.global_variables_initializer())
            return [sess.run([loss, step])[0] for _ in range(4)]

    got = build(cluster.target(), True)
    with tf.Graph().as_default():
        want = build("", False)
    check.close(got, want, "losses")


@program
def recurrent_net(cluster):
    """dynamic_rnn's kind of loop by hand: variables on ps, time steps on a worker, gradients, as in one process."""
    check_recurrent(cluster)


@program
def recurrent_net_v2(cluster):
    """The same with functions and resource variables."""
    tf.enable_control_flow_v2()
    tf.enable_resource_variables()
    check_recurrent(cluster)
