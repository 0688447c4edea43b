pub struct Embedded;
