//! The awaits of durable functions, alone and several at once.

use super::{
    Ctx, FunctionError,
    run::{Scope, Shared, Slot},
};
use crate::Value;
use serde::de::DeserializeOwned;
use std::{
    cell::Cell,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

/// Something that a function asked for: await it.
#[must_use = "await it, or let it go with `ctx.detach(…)`"]
pub struct Ask<T> {
    run: Shared,
    pub(super) slot: Rc<Slot>,
    error: Option<FunctionError>,
    result: PhantomData<fn() -> T>,
}

impl<T> Ask<T> {
    pub(super) fn new(run: &Shared, slot: Rc<Slot>) -> Self {
        Self { run: run.clone(), slot, error: None, result: PhantomData }
    }

    /// One that was never asked for, because of this.
    pub(super) fn failed(run: &Shared, error: FunctionError) -> Self {
        let slot = run.borrow().no_slot();
        Self { run: run.clone(), slot, error: Some(error), result: PhantomData }
    }

    /// The same ask, whose result is any value: so that asks of several types can be in one race.
    pub fn any(self) -> Ask<Value> {
        Ask { run: self.run, slot: self.slot, error: self.error, result: PhantomData }
    }

    fn is_settled(&self) -> bool {
        self.error.is_some() || self.slot.settled.borrow().is_some()
    }
}

impl<T: DeserializeOwned> Future for Ask<T> {
    type Output = Result<T, FunctionError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        self.slot.is_awaited.set(true);
        if let Some(error) = &self.error {
            return Poll::Ready(Err(error.clone()));
        }
        match &*self.slot.settled.borrow() {
            None => Poll::Pending,
            Some(Ok(value)) => Poll::Ready(serde_json::from_value(value.clone()).map_err(FunctionError::from)),
            Some(Err(error)) => Poll::Ready(Err(error.clone())),
        }
    }
}

type Pinned<T> = Pin<Box<dyn Future<Output = Result<T, FunctionError>>>>;

enum Item<F, T> {
    Waits(Pin<Box<F>>),
    Done(Option<T>),
}

/// Ends when all have ended, or with the first error.
pub(super) async fn all<T, F: Future<Output = Result<T, FunctionError>>>(
    waits: Vec<F>,
) -> Result<Vec<T>, FunctionError> {
    let mut items: Vec<_> = waits.into_iter().map(|wait| Item::Waits(Box::pin(wait))).collect();
    std::future::poll_fn(move |context| {
        for item in &mut items {
            let Item::Waits(wait) = item else { continue };
            match wait.as_mut().poll(context) {
                Poll::Pending => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(value)) => *item = Item::Done(Some(value)),
            }
        }
        let take = |item: &mut Item<F, T>| match item {
            Item::Done(value) => value.take(),
            Item::Waits(_) => None,
        };
        if items.iter().any(|item| matches!(item, Item::Waits(_))) {
            return Poll::Pending;
        }
        Poll::Ready(Ok(items.iter_mut().filter_map(take).collect()))
    })
    .await
}

/// Ends as the first of them ends, and withdraws the others.
pub(super) async fn race<T: DeserializeOwned>(run: &Shared, mut waits: Vec<Ask<T>>) -> Result<T, FunctionError> {
    let first = std::future::poll_fn(|context| {
        let ended = waits.iter_mut().map(|wait| Pin::new(wait).poll(context)).collect::<Vec<_>>();
        ended.into_iter().find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await;
    let mut run = run.borrow_mut();
    waits.iter().filter(|wait| !wait.is_settled()).for_each(|wait| run.withdraw(&wait.slot));
    first
}

type BeginBranch<T> = Box<dyn FnOnce(Ctx) -> Pinned<T>>;

/// One way of a race: an ask, or code that waits for several things in turn.
pub struct Branch<T>(BeginBranch<T>);

impl<T: 'static> Branch<T> {
    /// Code that waits with the `Ctx` that it gets, so that what it waits for can be withdrawn when another branch ends first.
    pub fn of<F: Future<Output = Result<T, FunctionError>> + 'static>(begin: impl FnOnce(Ctx) -> F + 'static) -> Self {
        Self(Box::new(move |ctx| Box::pin(begin(ctx))))
    }

    pub(super) fn begin(self, ctx: &Ctx) -> Begun<T> {
        let scoped = ctx.scope();
        Begun { scope: scoped.scope.clone(), wait: (self.0)(scoped) }
    }
}

pub(super) struct Begun<T> {
    scope: Rc<Scope>,
    wait: Pinned<T>,
}

/// Ends as the first branch ends, and cancels the scopes of the others.
pub(super) async fn race_branches<T>(run: &Shared, mut branches: Vec<Begun<T>>) -> Result<T, FunctionError> {
    let (at, first) = std::future::poll_fn(|context| {
        for (at, branch) in branches.iter_mut().enumerate() {
            if let Poll::Ready(ended) = branch.wait.as_mut().poll(context) {
                return Poll::Ready((at, ended));
            }
        }
        Poll::Pending
    })
    .await;
    for (_, lost) in branches.iter().enumerate().filter(|(number, _)| *number != at) {
        run.borrow_mut().cancel(&lost.scope, "another branch of the race ended first");
    }
    first
}

/// A bound on how many of a function's parts go on at the same time.
#[derive(Clone)]
pub struct Limit {
    run: Shared,
    left: Rc<Cell<usize>>,
}

impl Limit {
    pub(super) fn new(run: &Shared, max: usize) -> Self {
        Self { run: run.clone(), left: Rc::new(Cell::new(max)) }
    }

    /// Begins when there is room.
    pub fn run<T, F, B>(&self, begin: B) -> impl Future<Output = Result<T, FunctionError>> + use<T, F, B>
    where
        T: 'static,
        F: Future<Output = Result<T, FunctionError>> + 'static,
        B: FnOnce() -> F + 'static,
    {
        let (run, left) = (self.run.clone(), self.left.clone());
        let mut begin = Some(begin);
        let mut begun: Option<Pinned<T>> = None;
        std::future::poll_fn(move |context| {
            if begun.is_none() {
                let Some(room) = left.get().checked_sub(1) else { return Poll::Pending };
                left.set(room);
                begun = begin.take().map(|begin| Box::pin(begin()) as Pinned<T>);
            }
            let Some(wait) = &mut begun else { return Poll::Pending };
            let ended = wait.as_mut().poll(context);
            if ended.is_ready() {
                left.set(left.get() + 1);
                run.borrow_mut().changes += 1;
            }
            ended
        })
    }
}
